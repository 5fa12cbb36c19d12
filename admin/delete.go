package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/queue"
	"github.com/leasekit/leasekit/workqueue"
)

// Delete takes a job away, wherever it is, with all that belongs to it: nothing of it
// is left, not even its trail, and its ID is free. Cancel ends a job and keeps that. A
// claimed job is refused, unless By.BreakClaim takes it from its owner, who is fenced.
//
// It returns the job as it was; [workqueue.ErrNotFound]; [workqueue.ErrNotApplicable] when the job is
// claimed; [workqueue.ErrConflict] when By.Revision is not current.
func Delete(ctx context.Context, q *workqueue.Queue, id string, by workqueue.By) (*workqueue.Job, error) {
	what := fmt.Sprintf("delete: job %s of %s", id, coreOf(q).Name())
	if err := keyspace.ValidateName("id", id); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	for range queue.MaxTries {
		l, _, err := coreOf(q).Find(ctx, id)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", what, err)
		case l.Record == nil:
			return nil, fmt.Errorf("%s: %w", what, workqueue.ErrNotFound)
		case by.Revision != 0 && by.Revision != l.Rev:
			return nil, queue.Conflict(what, fmt.Errorf("it is at revision %d, not %d", l.Rev, by.Revision))
		case l.Where == job.InJobs && l.Record.Claimed() && !by.BreakClaim:
			return nil, fmt.Errorf("%s: %w: it is claimed", what, workqueue.ErrNotApplicable)
		}
		r, err := coreOf(q).Committer.Do(ctx, coreOf(q).Txns.Remove(l))
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", what, err)
		case r.Succeeded:
			return viewOf(l.Record, coreOf(q).Name(), l.Where, l.Rev, time.Now(), queue.Nobody), nil
		case by.Revision != 0:
			return nil, queue.Conflict(what, queue.ErrMoved)
		}
	}
	return nil, queue.Conflict(what, queue.ErrChanging)
}
