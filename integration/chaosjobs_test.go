package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/integration/history"
	"github.com/leasekit/leasekit/workqueue"
)

// behaviours are the kinds of jobs, and how often each is drawn.
var behaviours = []struct {
	kind   string
	weight int
}{
	{"quick", 40}, {"slow", 12}, {"flaky", 8}, {"hopeless", 3}, {"permanent", 2}, {"panic", 2}, {"snooze", 6}, {"checkpoint", 8},
	{"timeout", 2}, {"deaf", 1}, {"cancel", 2}, {"effect", 8}, {"chain", 6}, {"release", 2}, {"fail", 2}, {"collide", 2},
}

// drawJob draws a job.
func drawJob(rng *rand.Rand, id string) workqueue.Params {
	p := workqueue.Params{ID: id, Kind: drawKind(rng), Priority: rng.IntN(5) - 2, Payload: []byte(`"small"`)}
	if rng.IntN(10) == 0 {
		p.Payload = []byte(strings.Repeat("large ", 400)) // it lies beside the record
	}
	if rng.IntN(8) == 0 {
		p.RunAt = time.Now().Add(time.Duration(rng.IntN(2000)) * time.Millisecond)
	}
	p.AtMostOnce = rng.IntN(20) == 0
	switch p.Kind {
	case "hopeless", "collide":
		p.MaxAttempts = 2
	case "timeout", "deaf":
		p.Timeout = 150 * time.Millisecond
	}
	return p
}

func drawKind(rng *rand.Rand) string {
	sum := 0
	for _, b := range behaviours {
		sum += b.weight
	}
	n := rng.IntN(sum)
	for _, b := range behaviours {
		if n -= b.weight; n < 0 {
			return b.kind
		}
	}
	return ""
}

// chaosHandler works jobs of all kinds.
type chaosHandler struct {
	rec *history.Recorder
	q   *workqueue.Queue
}

// Handle does what the job's kind says.
func (h chaosHandler) Handle(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
	j := c.Job()
	result := fmt.Appendf(nil, `"%s by %s"`, j.ID, j.Owner)
	first := j.Attempt == 1
	switch j.Kind {
	case "slow":
		return result, busy(ctx, 200*time.Millisecond+time.Duration(rand.IntN(800))*time.Millisecond)
	case "flaky":
		if j.Attempt < 3 {
			return nil, errors.New("not yet")
		}
	case "hopeless":
		return nil, errors.New("never")
	case "permanent":
		return nil, workqueue.Permanent(errors.New("no use"))
	case "panic":
		if first {
			panic("as ordered")
		}
	case "snooze":
		if first {
			return nil, workqueue.Snooze(50 * time.Millisecond)
		}
	case "checkpoint":
		return result, h.checkpoint(ctx, c)
	case "timeout":
		if first {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
	case "deaf":
		if first { // it goes on beyond its grace, whatever its context says
			wait(context.Background(), 1500*time.Millisecond)
		}
	case "cancel":
		return nil, workqueue.Cancel(errors.New("pointless"))
	case "effect":
		key := fmt.Sprintf("%s%s/%v", chaosEffects, j.ID, c.Token())
		return nil, h.rec.Complete(ctx, c, result, clientv3.OpPut(key, j.Owner))
	case "chain":
		return nil, h.chain(ctx, c, result)
	case "collide": // the caller leaves, and what it left is refused behind it
		early, cancel := context.WithTimeout(ctx, time.Duration(1+rand.IntN(20))*time.Millisecond)
		defer cancel()
		_ = completeWithJob(early, h.rec, h.q, c, result, parkedJob)
		return result, nil
	case "release":
		if first {
			return nil, h.rec.Release(ctx, c)
		}
	case "fail":
		if first {
			return nil, h.rec.Fail(ctx, c, errors.New("by hand"))
		}
	}
	return result, busy(ctx, time.Duration(rand.IntN(5))*time.Millisecond)
}

// busy is work that stops when it should.
func busy(ctx context.Context, d time.Duration) error {
	if !wait(ctx, d) {
		return context.Cause(ctx)
	}
	return nil
}

// checkpoint counts to five, and goes on where the last attempt left off.
func (h chaosHandler) checkpoint(ctx context.Context, c *workqueue.Claim) error {
	at := 0
	if b := c.Job().Checkpoint; len(b) > 0 {
		if err := json.Unmarshal(b, &at); err != nil {
			return workqueue.Permanent(fmt.Errorf("checkpoint %q: %w", b, err))
		}
	}
	for ; at < 5; at++ {
		if err := busy(ctx, time.Duration(rand.IntN(60))*time.Millisecond); err != nil {
			return err
		}
		if err := h.rec.Checkpoint(ctx, c, fmt.Append(nil, at+1)); err != nil {
			return err
		}
	}
	return nil
}

// chain completes the job together with the enqueue of another.
func (h chaosHandler) chain(ctx context.Context, c *workqueue.Claim, result []byte) error {
	return completeWithJob(ctx, h.rec, h.q, c, result, fmt.Sprintf("%s-next-%v", c.Job().ID, c.Token()))
}

// parkedJob is a job that is there and is not due while anything goes wrong.
const parkedJob = "parked"

// park enqueues it.
func (c *chaos) park(t *testing.T, q *history.Queue) {
	t.Helper()
	if _, err := q.Enqueue(bounded(t), workqueue.Params{ID: parkedJob, Kind: "quick", RunAt: time.Now().Add(24 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
}

// completeWithJob completes a job together with the enqueue of another, recorded.
func completeWithJob(ctx context.Context, rec *history.Recorder, q *workqueue.Queue, c *workqueue.Claim, result []byte, id string) error {
	id, _, ops, err := q.EnqueueOps(workqueue.Params{ID: id, Kind: "quick"})
	if err != nil {
		return err
	}
	call := rec.Begin(ctx, history.Op{Client: c.Job().Owner, Verb: history.Enqueue, Queue: chaosQueue, ID: id})
	err = rec.Complete(ctx, c, result, ops...)
	call.End(err, func(op *history.Op) {
		switch op.Result {
		case history.Refused:
			// It says something about the claim, and nothing about the new job.
			op.Result, op.Why = history.NotApplied, ""
		case history.Applied:
			// At a revision that is not told. That it happened with the completion is
			// checked among its effects.
			op.Result = history.Unknown
		}
	})
	return err
}

// produce enqueues jobs in batches until ctx ends, and some of their ids again. Number
// tells the producers apart.
func (c *chaos) produce(ctx context.Context, q *history.Queue, number int) {
	rng := c.cfg.rng(fmt.Sprint("jobs", number))
	for n := 0; ctx.Err() == nil; {
		items := make([]workqueue.Params, 1+rng.IntN(theSize().batch))
		for i := range items {
			id := fmt.Sprintf("j%d-%d", number, n)
			if old := c.someID(rng); old != "" && rng.IntN(20) == 0 {
				id = old
			}
			items[i] = drawJob(rng, id)
			if rng.IntN(3) == 0 {
				items[i].Dedup = workqueue.UntilRetained
			}
			n++
		}
		patience := 5 * time.Second
		if rng.IntN(10) == 0 {
			patience = time.Duration(1+rng.IntN(50)) * time.Millisecond // it does not wait for the answer
		}
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		_, _ = q.EnqueueBatch(call, items) // the record has what became of each
		cancel()
		c.mu.Lock()
		for _, p := range items {
			c.ids = append(c.ids, p.ID)
		}
		c.mu.Unlock()
		if !wait(ctx, theSize().between/2+rand.N(theSize().between)) {
			return
		}
	}
}

// someID draws a job, a recent one for the most part; "" when there is none.
func (c *chaos) someID(rng *rand.Rand) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.ids)
	if n == 0 {
		return ""
	}
	if recent := 100; n > recent && rng.IntN(4) > 0 {
		return c.ids[n-1-rng.IntN(recent)]
	}
	return c.ids[rng.IntN(n)]
}
