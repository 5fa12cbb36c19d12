package workqueue

import (
	"context"
	"fmt"
	"time"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
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
		return nil, fmt.Errorf("move: job %s of %s: %w", id, q.name, err)
	}
	if to == q.name {
		return nil, fmt.Errorf("move: job %s of %s: %w", id, q.name, &coord.InputError{Field: "to", Value: to, Reason: "it is there already"})
	}
	there := job.Txns{Keys: q.store.Keys().Queue(to), Space: q.txns.Space}
	return q.retold(ctx, job.VerbMove, id, by, func(l job.Snapshot, beside job.Beside) (*Job, error) {
		now := time.Now()
		n, err := q.intervention(l, job.Event{Verb: job.VerbMove, Now: now, By: by.inner(), From: q.name})
		if err != nil {
			return nil, err
		}
		txn, err := q.txns.Relocate(l, n, there, beside)
		if err != nil {
			return nil, err
		}
		r, err := q.committer.Do(ctx, txn)
		switch {
		case err != nil:
			return nil, err
		case r.Succeeded:
			return view(n.Record, to, n.Where, r.Revision, now, nobody), nil
		case r.Get(1) != nil || r.Get(2) != nil || r.Get(3) != nil:
			return nil, fmt.Errorf("%w in queue %s too", ErrExists, to)
		}
		return nil, errMissed
	})
}
