package workqueue

import (
	"context"
	"fmt"
	"time"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/queue"
)

// Move takes a job, live or dead, to another queue of the same root, with its payload,
// its checkpoint and its trail: what is live stands there behind the jobs that wait,
// what is dead is a dead letter there. Both happen at once or not at all. A claimed job
// is refused, unless By.BreakClaim takes it from its owner, who is fenced.
//
// It returns the job as it is there; [ErrNotFound]; [ErrExists] when the other queue
// has, or keeps, a job of that ID; [ErrNotApplicable] when the job is claimed, done or
// cancelled; [ErrConflict] when By.Revision is not current.
func (q *Queue) Move(ctx context.Context, id, to string, by By) (*Job, error) {
	if err := keyspace.ValidateName("to", to); err != nil {
		return nil, fmt.Errorf("move: job %s of %s: %w", id, q.core.Name, err)
	}
	if to == q.core.Name {
		return nil, fmt.Errorf("move: job %s of %s: %w", id, q.core.Name, &coord.InputError{Field: "to", Value: to, Reason: "it is there already"})
	}
	there := job.Txns{Keys: q.core.Store.Keys().Queue(to), Space: q.core.Txns.Space}
	l, err := q.core.Retold(ctx, job.VerbMove, id, by.inner(), func(l job.Snapshot, beside job.Beside) (job.Snapshot, error) {
		n, err := q.core.Intervention(l, job.Event{Verb: job.VerbMove, Now: time.Now(), By: by.inner(), From: q.core.Name})
		if err != nil {
			return job.Snapshot{}, err
		}
		txn, err := q.core.Txns.Relocate(l, n, there, beside)
		if err != nil {
			return job.Snapshot{}, err
		}
		r, err := q.core.Committer.Do(ctx, txn)
		switch {
		case err != nil:
			return job.Snapshot{}, err
		case r.Succeeded:
			return n.At(r.Revision), nil
		case r.Get(1) != nil || r.Get(2) != nil || r.Get(3) != nil:
			return job.Snapshot{}, fmt.Errorf("%w in queue %s too", ErrExists, to)
		}
		return job.Snapshot{}, queue.ErrMissed
	})
	if err != nil {
		return nil, err
	}
	return view(l.Record, to, l.Where, l.Rev, time.Now(), queue.Nobody), nil
}
