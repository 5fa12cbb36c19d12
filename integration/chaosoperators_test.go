package integration_test

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/leasekit/leasekit/integration/history"
	"github.com/leasekit/leasekit/workqueue"
)

// operator interferes with jobs and with the queue.
type operator struct {
	c   *chaos
	rng *rand.Rand
	q   *history.Queue
}

// operate interferes until ctx ends.
func (c *chaos) operate(ctx context.Context, q *history.Queue) {
	o := &operator{c: c, rng: c.cfg.rng("operators"), q: q}
	for wait(ctx, time.Duration(20+o.rng.IntN(200))*time.Millisecond) {
		// What is begun is finished, even when ctx ends.
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		o.act(call, ctx)
		cancel()
	}
}

// act does one thing; ctx bounds its calls, until ends what is to last. What becomes
// of a call the record tells.
func (o *operator) act(ctx, until context.Context) {
	by := workqueue.By{Actor: "operator", Reason: "chaos"}
	id := o.c.someID(o.rng)
	switch n := o.rng.IntN(40); {
	case id == "":
	case n < 12:
		_, _ = o.q.Cancel(ctx, id, by)
	case n < 22:
		_, _ = o.q.Requeue(ctx, id, by)
	case n < 24:
		_, _ = o.q.Bury(ctx, id, by)
	case n < 34:
		o.breakClaim(ctx, by)
	case n < 38:
		o.pause(ctx, until, by)
	default:
		o.switchMode(ctx, until, by)
	}
}

// breakClaim breaks the claim of a job that is being worked.
func (o *operator) breakClaim(ctx context.Context, by workqueue.By) {
	var ids []string
	for j, err := range o.q.List(ctx, workqueue.Filter{States: []workqueue.State{workqueue.StateClaimed, workqueue.StateOrphan}}) {
		if err == nil {
			ids = append(ids, j.ID)
		}
	}
	if len(ids) > 0 {
		_, _ = o.q.BreakClaim(ctx, ids[o.rng.IntN(len(ids))], by)
	}
}

// pause pauses the queue for a moment.
func (o *operator) pause(ctx, until context.Context, by workqueue.By) {
	defer o.c.away()()
	if err := o.q.Pause(ctx, by); err != nil {
		return
	}
	o.c.rec.Reached().Hit("operator:pause")
	wait(until, time.Duration(o.rng.IntN(400))*time.Millisecond)
	o.insist(until, func(ctx context.Context) error { return o.q.Resume(ctx, by) })
}

// switchMode shares the work the other way for a while.
func (o *operator) switchMode(ctx, until context.Context, by workqueue.By) {
	other := map[string]string{"claim": "dispatch", "dispatch": "claim"}[o.c.cfg.mode]
	if err := o.q.SetMode(ctx, other, by); err != nil {
		return
	}
	o.c.rec.Reached().Hit("operator:switch-mode")
	wait(until, time.Duration(o.rng.IntN(3000))*time.Millisecond)
	o.insist(until, func(ctx context.Context) error { return o.q.SetMode(ctx, o.c.cfg.mode, by) })
}

// insist tries until it works; the drain does it otherwise.
func (o *operator) insist(until context.Context, f func(context.Context) error) {
	_, _ = insist(until, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) })
}
