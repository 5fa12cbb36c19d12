package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/queue"
	"github.com/leasekit/leasekit/workqueue"
)

// Move takes a job, live or dead, to another queue of the same root, with its payload,
// its checkpoint and its trail: what is live stands there behind the jobs that wait,
// what is dead is a dead letter there. Both happen at once or not at all. A claimed job
// is refused, unless By.BreakClaim takes it from its owner, who is fenced.
//
// It returns the job as it is there; [workqueue.ErrNotFound]; [workqueue.ErrExists] when the other queue
// has, or keeps, a job of that ID; [workqueue.ErrNotApplicable] when the job is claimed, done or
// cancelled; [workqueue.ErrConflict] when By.Revision is not current.
func Move(ctx context.Context, q *workqueue.Queue, id, to string, by workqueue.By) (*workqueue.Job, error) {
	if err := keyspace.ValidateName("to", to); err != nil {
		return nil, fmt.Errorf("move: job %s of %s: %w", id, coreOf(q).Name(), err)
	}
	if to == coreOf(q).Name() {
		return nil, fmt.Errorf("move: job %s of %s: %w", id, coreOf(q).Name(), &coord.InputError{Field: "to", Value: to, Reason: "it is there already"})
	}
	there := job.Txns{Keys: coreOf(q).Store.Keys().Queue(to), Space: coreOf(q).Txns.Space}
	l, err := coreOf(q).Retold(ctx, job.VerbMove, id, job.By(by), func(l job.Snapshot, beside job.Beside) (job.Snapshot, error) {
		n, err := coreOf(q).Intervention(l, job.Event{Verb: job.VerbMove, Now: time.Now(), By: job.By(by), From: coreOf(q).Name()})
		if err != nil {
			return job.Snapshot{}, err
		}
		txn, err := coreOf(q).Txns.Relocate(l, n, there, beside)
		if err != nil {
			return job.Snapshot{}, err
		}
		r, err := coreOf(q).Committer.Do(ctx, txn)
		switch {
		case err != nil:
			return job.Snapshot{}, err
		case r.Succeeded:
			return n.At(r.Revision), nil
		case r.Get(1) != nil || r.Get(2) != nil || r.Get(3) != nil:
			return job.Snapshot{}, fmt.Errorf("%w in queue %s too", workqueue.ErrExists, to)
		}
		return job.Snapshot{}, queue.ErrMissed
	})
	if err != nil {
		return nil, err
	}
	return viewOf(l.Record, to, l.Where, l.Rev, time.Now(), queue.Nobody), nil
}
