package workqueue

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/leasekit/leasekit/coord"
)

// dispatching is one dispatcher's term.
type dispatching struct {
	q         *Queue
	fence     coord.Fence // the leader's
	committer *coord.Committer
	ttl       time.Duration
	prefetch  int
}

// dispatchBatch is how many jobs are handed out in one round, before the room of
// the workers is looked at again.
const dispatchBatch = 256

// run hands jobs out, round after round, whenever something changed.
func (d *dispatching) run(ctx context.Context) {
	changed, stop := d.q.index.listen()
	defer stop()
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	for ctx.Err() == nil {
		assignments, wake := d.q.index.assignments(d.prefetch, d.ttl)
		if len(assignments) > 0 {
			if d.round(ctx, assignments) {
				continue
			}
			// Nothing came of it, so the mirrors lag: let them catch up.
			wake = soonest(wake, time.Now().Add(retryEvery))
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

// round makes the assignments, all at once, and tells whether any was made.
func (d *dispatching) round(ctx context.Context, assignments []assignment) bool {
	var wg sync.WaitGroup
	made := make([]bool, len(assignments))
	for i, a := range assignments {
		wg.Go(func() {
			err := d.assign(ctx, a)
			made[i] = err == nil
			if err != nil && !errors.Is(err, errMissed) && ctx.Err() == nil {
				d.q.log.Warn("assign job", zap.String("job", a.c.record.ID), zap.String("to", a.to.id), zap.Error(err))
			}
		})
	}
	wg.Wait()
	return slices.Contains(made, true)
}

// assign gives one job to one worker.
func (d *dispatching) assign(ctx context.Context, a assignment) error {
	e := event{
		verb: verbClaim, now: a.c.seen, nonce: coord.NewNonce(), assigned: true,
		owner: a.to.id, ownerRev: a.to.rev, delay: d.q.delay(),
	}
	var progress int64
	if a.c.orphan {
		var err error
		if progress, err = d.q.judgeLoss(ctx, a.c, &e); err != nil {
			d.q.index.settleEntry(a.c, false)
			return err
		}
	}
	n, err := transition(a.c.record, a.c.where, e)
	if err != nil {
		d.q.index.settleEntry(a.c, false)
		return errMissed
	}
	txn, err := d.q.txns.assign(a, n, progress, d.fence)
	if err != nil {
		d.q.index.settleEntry(a.c, false)
		return err
	}
	r, err := d.committer.Do(ctx, txn)
	switch {
	case err != nil:
		d.q.index.settleEntry(a.c, false)
		return err
	case !r.Succeeded:
		kv := r.Get(0)
		d.q.index.settleEntry(a.c, kv == nil || kv.ModRevision != a.c.rev)
		return errMissed
	}
	return nil
}
