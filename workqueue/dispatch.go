package workqueue

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/lane"
	"github.com/leasekit/leasekit/internal/queue"
	"github.com/leasekit/leasekit/internal/ready"
)

// dispatching is one dispatcher's term.
type dispatching struct {
	q         *Queue
	fence     coord.Fence // the leader's
	committer *lane.Committer
	ttl       time.Duration
	prefetch  int
}

// run hands jobs out, round after round, whenever something changed.
func (d *dispatching) run(ctx context.Context) {
	changed, stop := d.q.core.Index.Listen()
	defer stop()
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	for bad := 0; ctx.Err() == nil; {
		assignments, wake := d.q.core.Index.Assignments(d.prefetch, d.ttl)
		if len(assignments) > 0 {
			made, err := d.round(ctx, assignments)
			if made {
				bad = 0
				continue
			}
			if err != nil { // etcd is in trouble: changes are no reason to hurry
				rest(ctx, min(troublePause<<min(bad, 6), maxTroublePause))
				bad++
				continue
			}
			// Nothing came of it, so the mirrors lag: let them catch up.
			wake = ready.Soonest(wake, time.Now().Add(ready.RetryEvery))
		}
		alarm.Stop()
		if !wake.IsZero() {
			alarm.Reset(max(time.Until(wake), time.Millisecond))
		}
		select {
		case <-changed:
		case <-alarm.C:
		case <-ctx.Done():
		}
	}
}

// round makes the assignments and tells whether any was made, and what went wrong.
// They are handed over in the order given, so that a worker's inbox has its jobs in
// the queue's order.
func (d *dispatching) round(ctx context.Context, assignments []ready.Assignment) (made bool, trouble error) {
	units := make([]sent, len(assignments))
	var wg sync.WaitGroup
	for i, a := range assignments {
		if !a.Candidate.Orphan {
			units[i].txn, units[i].err = d.prepare(ctx, a)
			continue
		}
		wg.Go(func() { units[i].txn, units[i].err = d.prepare(ctx, a) }) // it asks etcd
	}
	wg.Wait()
	for i, s := range units {
		if s.err == nil {
			units[i].pending = d.committer.Go(s.txn)
		}
	}
	for i, s := range units {
		err := d.settle(ctx, assignments[i].Candidate, s)
		made = made || err == nil
		if err != nil && !errors.Is(err, queue.ErrMissed) {
			trouble = err
		}
	}
	if trouble != nil && ctx.Err() == nil {
		d.q.core.Log.Warn("assign jobs", zap.Int("of", len(units)), zap.Error(trouble)) // one line for all
	}
	return made, trouble
}

// sent is an assignment on its way.
type sent struct {
	txn     etcdkv.Txn
	pending *lane.Pending
	err     error
}

// prepare makes the Txn that gives one job to one worker.
func (d *dispatching) prepare(ctx context.Context, a ready.Assignment) (etcdkv.Txn, error) {
	e := job.Event{
		Verb: job.VerbClaim, Now: a.Candidate.Seen, Nonce: keyspace.NewNonce(), Assigned: true,
		Owner: a.To.ID, OwnerRev: a.To.Rev, Delay: d.q.core.Delay(),
	}
	var progress int64
	if a.Candidate.Orphan {
		var err error
		if progress, err = d.q.judgeLoss(ctx, a.Candidate, &e); err != nil {
			return etcdkv.Txn{}, err
		}
	}
	n, err := job.Transition(a.Candidate.Record, a.Candidate.Where, e)
	if err != nil {
		return etcdkv.Txn{}, queue.ErrMissed
	}
	return d.q.core.Txns.Assign(job.Assignment{
		Snapshot: a.Candidate.Snapshot, To: a.To, Orphan: a.Candidate.Orphan, Registered: a.Registered, Config: a.Candidate.Config, Progress: progress,
	}, n, fenceOf(d.fence))
}

// settle waits for an assignment. One that was made stays marked in the index until
// the event that shows it.
func (d *dispatching) settle(ctx context.Context, c ready.Candidate, s sent) error {
	if s.err != nil {
		d.q.core.Index.Settle(c, false)
		return s.err
	}
	r, err := s.pending.Wait(ctx)
	switch {
	case err != nil:
		d.q.core.Index.Settle(c, false)
		return err
	case !r.Succeeded:
		d.q.core.Index.Refused(c, r.Get(0))
		return queue.ErrMissed
	}
	return nil
}
