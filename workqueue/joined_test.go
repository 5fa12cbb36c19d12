package workqueue_test

import (
	"errors"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/workqueue"
)

// A job that is done only under a lock is not done once the lock has another holder, and
// can still be closed otherwise.
func TestCompleteJoinedNeedsEveryFence(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	mine := etcdtest.Root(t)
	acquire := func(name string) *coord.Hold {
		h, err := coord.NewLock(d.s, name).Acquire(bounded(t))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	d.add(workqueue.Params{ID: "x"})
	c := d.claim()
	kept, lost := acquire("kept"), acquire("lost")
	if err := lost.Release(bounded(t)); err != nil {
		t.Fatal(err)
	}
	again := acquire("lost")
	if err := kept.Release(bounded(t)); err != nil {
		t.Fatal(err)
	}
	kept = acquire("kept")

	_, _, next, err := d.q.EnqueueOps(workqueue.Params{ID: "next"})
	if err != nil {
		t.Fatal(err)
	}
	ops := append(next, clientv3.OpPut(mine+"a", "1"))
	for range 2 { // the claim stays open
		err = c.CompleteJoined(bounded(t), []byte("r"), []coord.Fence{kept.Fence(), lost.Fence()}, ops...)
		var fenced *coord.FencedError
		if !errors.As(err, &fenced) || !errors.Is(err, coord.ErrFenced) || fenced.Key != lost.Fence().Key || fenced.Current != again.Token() {
			t.Fatalf("got %v", err)
		}
	}
	if d.value(mine+"a") != "" || get(t, d.q, "x").State != workqueue.StateClaimed {
		t.Fatal("something was written")
	}
	if refused, err := admin.Refusals(bounded(t), d.q); err != nil || len(refused) != 0 {
		t.Errorf("evidence against a claim that is current: %v, %v", refused, err)
	}
	// A fence that belongs to no claim, and too many of them.
	many := make([]coord.Fence, 17)
	for i := range many {
		many[i] = kept.Fence()
	}
	for _, fences := range [][]coord.Fence{{{}}, {kept.Fence(), {Key: "k"}}, many} {
		if err := c.CompleteJoined(bounded(t), nil, fences); !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("%d fences: got %v", len(fences), err)
		}
	}
	if err := c.CompleteJoined(bounded(t), []byte("r"), []coord.Fence{kept.Fence(), again.Fence()}, ops...); err != nil {
		t.Fatal(err)
	}
	if x := get(t, d.q, "x"); x.State != workqueue.StateDone || x.Revision != get(t, d.q, "next").Revision || d.value(mine+"a") != "1" {
		t.Errorf("got %+v", x)
	}
}

// The refusal says whose claim is over, with fences alone too; the job's own comes first.
func TestCompleteJoinedWithoutOps(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	d.add(workqueue.Params{ID: "x"})
	d.add(workqueue.Params{ID: "there"})
	c := d.claim()
	h, err := coord.NewSemaphore(d.s, "gpu", 1).Acquire(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Release(bounded(t)); err != nil {
		t.Fatal(err)
	}
	gone := []coord.Fence{h.Fence()}
	var fenced *coord.FencedError
	if err := c.CompleteJoined(bounded(t), nil, gone); !errors.As(err, &fenced) || fenced.Key != h.Fence().Key || !fenced.Current.IsZero() {
		t.Errorf("got %v", err)
	}
	// Beside a job that exists, the fence is named, and the job behind it not mistaken.
	_, _, taken, err := d.q.EnqueueOps(workqueue.Params{ID: "there"})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CompleteJoined(bounded(t), nil, gone, taken...); !errors.Is(err, coord.ErrFenced) || errors.Is(err, workqueue.ErrExists) {
		t.Errorf("got %v", err)
	}
	held, err := coord.NewLock(d.s, "l").Acquire(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	wantExists(t, c.CompleteJoined(bounded(t), nil, []coord.Fence{held.Fence()}, taken...), "there", workqueue.StateReady)
	if _, err := admin.BreakClaim(bounded(t), d.q, c.Job().ID, workqueue.By{Actor: "ann"}); err != nil {
		t.Fatal(err)
	}
	if err := c.CompleteJoined(bounded(t), nil, gone); !errors.As(err, &fenced) || fenced.Key != c.Fence().Key {
		t.Errorf("got %v", err)
	}
	if err := c.Complete(bounded(t), nil); !errors.As(err, &fenced) || fenced.Key != c.Fence().Key {
		t.Errorf("after a refusal of its own: got %v", err)
	}
}
