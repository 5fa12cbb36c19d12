package lane

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
	"github.com/leasekit/leasekit/internal/faultkv"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// laneLeaseNow is the lease of the lane that is used first.
func (c *Committer) laneLeaseNow() clientv3.LeaseID {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.lanes {
		if s.lane != nil {
			return s.lane.lease
		}
	}
	return 0
}

// A lane whose lease is gone takes nothing with it: what was certainly not
// applied travels in another lane.
func TestLostLaneCertainlyNotApplied(t *testing.T) {
	for name, lose := range map[string]func(w *faultkv.World, lease clientv3.LeaseID) error{
		"lease revoked": func(w *faultkv.World, lease clientv3.LeaseID) error {
			_, err := w.Client.Revoke(t.Context(), lease)
			return err
		},
		"lane key deleted": func(w *faultkv.World, _ clientv3.LeaseID) error {
			_, err := w.Client.Delete(t.Context(), w.Store.Keys().Lanes(), clientv3.WithPrefix())
			return err
		},
		"lane key overwritten": func(w *faultkv.World, lease clientv3.LeaseID) error {
			_, err := w.Client.Put(t.Context(), w.Store.Keys().Lane("test."+keyspace.Hex16(uint64(lease)), 0), "x")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := faultkv.NewWorld(t)
			c := openedCommitter(t, w)
			old := c.laneLeaseNow()
			if err := lose(w, old); err != nil {
				t.Fatal(err)
			}
			pending := together(t, w, c, []etcdkv.Txn{faultkv.PutTxn(w.Data+"a", ""), {Then: []clientv3.Op{clientv3.OpDelete(w.Data + "b")}}})
			for _, p := range pending {
				if r := mustWait(t, p); !r.Succeeded {
					t.Error("not applied")
				}
			}
			faultkv.WantVersions(t, w, map[string]int64{"a": 1, "gate": 1})
			if c.laneLeaseNow() == old {
				t.Error("the lost lane's lease is still used")
			}
		})
	}
}

// Between two lanes a Txn is certainly not applied, and can be withdrawn again.
func TestWithdrawnBetweenTwoLanes(t *testing.T) {
	w := faultkv.NewWorld(t)
	c := openedCommitter(t, w)
	if _, err := w.Client.Revoke(faultkv.Within(t), c.laneLeaseNow()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan struct{})
	w.Mu.Lock()
	w.OnGrant = func() {
		cancel()
		<-waited
	}
	w.Mu.Unlock()
	_, err := c.Go(faultkv.PutTxn(w.Data+"a", "")).Wait(ctx)
	close(waited)
	faultkv.WantErr(t, err, fault.ErrNotSent)
	mustApply(t, c, faultkv.PutTxn(w.Data+"b", ""))
	faultkv.WantVersions(t, w, map[string]int64{"a": 0, "b": 1})
}

// An open outcome is unknown when the lane is gone; the lane is not used again.
func TestLostLaneAmbiguous(t *testing.T) {
	for _, applied := range []bool{true, false} {
		t.Run(fmt.Sprintf("applied %v", applied), func(t *testing.T) {
			w := faultkv.NewWorld(t)
			c := openedCommitter(t, w)
			old := c.laneLeaseNow()
			revoke := func() {
				if _, err := w.Client.Revoke(faultkv.Within(t), old); err != nil {
					t.Error(err)
				}
			}
			if applied {
				w.Faults(faultkv.Fate{Lose: faultkv.ErrLost, Then: revoke})
			} else {
				// Lost on its way; the lease ends before the repeat.
				gate := make(chan struct{})
				w.Faults(faultkv.Fate{Refuse: faultkv.ErrLost}, faultkv.Fate{Hold: gate})
				go func() {
					defer close(gate)
					w.WaitSent(t, 2)
					revoke()
				}()
			}
			_, err := c.Do(faultkv.Within(t), faultkv.PutTxn(w.Data+"a", ""))
			faultkv.WantErr(t, err, fault.ErrUnknown)
			want := int64(0)
			if applied {
				want = 1
			}
			faultkv.WantVersions(t, w, map[string]int64{"a": want})
			mustApply(t, c, faultkv.PutTxn(w.Data+"b", ""))
			if got := w.Lanes(t); got != 1 {
				t.Errorf("lanes: got %d, want a new one only", got)
			}
			if c.laneLeaseNow() == old {
				t.Error("the lost lane's lease is still used")
			}
		})
	}
}

// The caller's time ends while its Txn is queued: it is surely never applied.
func TestWithdrawnWhileQueued(t *testing.T) {
	w := faultkv.NewWorld(t)
	c := openedCommitter(t, w)
	gate := make(chan struct{})
	w.Faults(faultkv.Fate{Hold: gate})
	first := c.Go(faultkv.PutTxn(w.Data+"gate", ""))
	w.WaitSent(t, 1)
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	queued := c.Go(faultkv.PutTxn(w.Data+"a", ""))
	cancel(cause)
	_, err := queued.Wait(ctx)
	faultkv.WantErr(t, err, cause)
	if errors.Is(err, fault.ErrUnknown) {
		t.Errorf("got %v, want a certain error", err)
	}
	// Waiting again gives the same answer, with any ctx.
	_, again := queued.Wait(faultkv.Within(t))
	faultkv.WantErr(t, again, cause)
	_, err = c.Do(ctx, faultkv.PutTxn(w.Data+"b", "")) // ended before it began
	faultkv.WantErr(t, err, cause)
	close(gate)
	mustWait(t, first)
	mustApply(t, c, faultkv.PutTxn(w.Data+"z", ""))
	faultkv.WantVersions(t, w, map[string]int64{"a": 0, "b": 0, "z": 1})
}

// Withdrawn Txns do not pile up behind a flight that never ends.
func TestWithdrawnUnitsDoNotPileUp(t *testing.T) {
	w := faultkv.NewWorld(t)
	c := openedCommitter(t, w)
	gate := make(chan struct{})
	w.Faults(faultkv.Fate{Hold: gate})
	first := c.Go(faultkv.PutTxn(w.Data+"gate", ""))
	w.WaitSent(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	kept := c.Go(faultkv.PutTxn(w.Data+"kept", ""))
	for range 20 * maxWithdrawn {
		if _, err := c.Go(faultkv.PutTxn(w.Data+"a", "")).Wait(ctx); !errors.Is(err, fault.ErrNotSent) {
			t.Fatalf("got %v, want withdrawn", err)
		}
	}
	c.mu.Lock()
	n := len(c.queue)
	c.mu.Unlock()
	if n > 2*maxWithdrawn {
		t.Errorf("queue: got %d, want at most %d", n, 2*maxWithdrawn)
	}
	close(gate)
	mustWait(t, first)
	mustWait(t, kept)
	faultkv.WantVersions(t, w, map[string]int64{"a": 0, "kept": 1})
}

// The caller's time ends while its Txn is in flight: the outcome is unknown now,
// and found out behind.
func TestUnknownWhileInFlight(t *testing.T) {
	w := faultkv.NewWorld(t)
	c := openedCommitter(t, w)
	gate := make(chan struct{})
	w.Faults(faultkv.Fate{Lose: faultkv.ErrLost}, faultkv.Fate{Hold: gate})
	ctx, cancel := context.WithCancel(t.Context())
	p := c.Go(faultkv.PutTxn(w.Data+"a", ""))
	w.WaitSent(t, 2)
	cancel()
	_, err := p.Wait(ctx)
	faultkv.WantErr(t, err, fault.ErrUnknown)
	faultkv.WantErr(t, err, context.Canceled)
	faultkv.WantErr(t, err, faultkv.ErrLost) // why it took so long
	select {
	case <-p.Done():
		t.Error("Done before the outcome is known")
	default:
	}
	close(gate)
	<-p.Done()
	if r, err := p.Result(); err != nil || !r.Succeeded {
		t.Errorf("later: got %v %v, want applied", r.Succeeded, err)
	}
	if _, err := p.Wait(ctx); err != nil { // known now, whatever ctx says
		t.Errorf("waiting again: got %v, want nil", err)
	}
	faultkv.WantVersions(t, w, map[string]int64{"a": 1})
}

// A slow flight holds up nobody: another lane takes what waits.
func TestSlowFlightOpensAnotherLane(t *testing.T) {
	w := faultkv.NewWorld(t)
	c := openedCommitter(t, w)
	gate := make(chan struct{})
	w.Faults(faultkv.Fate{Hold: gate})
	slow := c.Go(faultkv.PutTxn(w.Data+"slow", ""))
	w.WaitSent(t, 1)
	mustApply(t, c, faultkv.PutTxn(w.Data+"a", ""))
	mustApply(t, c, faultkv.PutTxn(w.Data+"b", ""))
	select {
	case <-slow.Done():
		t.Error("the slow one cannot be done")
	default:
	}
	if got := w.Lanes(t); got != 2 {
		t.Errorf("lanes: got %d, want 2", got)
	}
	close(gate)
	mustWait(t, slow)
	mustApply(t, c, faultkv.PutTxn(w.Data+"c", ""))
	if got := w.Lanes(t); got != 2 {
		t.Errorf("lanes afterwards: got %d, want 2", got)
	}
	faultkv.WantVersions(t, w, map[string]int64{"slow": 1, "a": 1, "b": 1, "c": 1})
}

func TestCloseDrains(t *testing.T) {
	w := faultkv.NewWorld(t)
	w.Put(t, "connected", "")
	leaks := goleak.IgnoreCurrent()
	c := NewCommitter(w.Store, "test")
	mustApply(t, c, faultkv.PutTxn(w.Data+"opened", ""))
	gate := make(chan struct{})
	w.Faults(faultkv.Fate{Hold: gate})
	flying := c.Go(faultkv.PutTxn(w.Data+"a", ""))
	w.WaitSent(t, 1)
	queued := c.Go(faultkv.PutTxn(w.Data+"b", ""))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	faultkv.WantErr(t, c.Drain(ctx), context.Canceled) // closed from here on, not drained yet
	_, err := c.Do(faultkv.Within(t), faultkv.PutTxn(w.Data+"late", ""))
	faultkv.WantErr(t, err, fault.ErrClosed)
	var wg sync.WaitGroup
	for range 3 { // at the same time
		wg.Go(func() { closeIt(t, c) })
	}
	close(gate)
	wg.Wait()
	for _, p := range []*Pending{flying, queued} {
		if r := mustWait(t, p); !r.Succeeded {
			t.Error("handed over before Close, not applied")
		}
	}
	if got := w.Lanes(t); got != 0 {
		t.Errorf("lanes after Close: got %d, want none", got)
	}
	closeIt(t, c) // once more
	goleak.VerifyNone(t, leaks)
}

func TestCloseIsBounded(t *testing.T) {
	w := faultkv.NewWorld(t)
	c := NewCommitter(w.Store, "test")
	mustApply(t, c, faultkv.PutTxn(w.Data+"opened", ""))
	w.PlanBy(func(int, etcdkv.Txn) faultkv.Fate { return faultkv.Fate{Hold: make(chan struct{})} })
	flying := c.Go(faultkv.PutTxn(w.Data+"a", ""))
	w.WaitSent(t, 1)
	queued := c.Go(faultkv.PutTxn(w.Data+"b", ""))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("close: got %v, want that it was cut short", err)
	}
	_, err := flying.Wait(faultkv.Within(t))
	faultkv.WantErr(t, err, fault.ErrUnknown)
	if errors.Is(err, fault.ErrClosed) {
		t.Errorf("in flight: got %v, which promises that nothing was written", err)
	}
	_, err = queued.Wait(faultkv.Within(t))
	faultkv.WantErr(t, err, fault.ErrClosed)
	if errors.Is(err, fault.ErrUnknown) {
		t.Errorf("queued: got %v, want a certain error", err)
	}
	_, err = c.Do(faultkv.Within(t), faultkv.PutTxn(w.Data+"c", ""))
	faultkv.WantErr(t, err, fault.ErrClosed)
	if got := w.Lanes(t); got != 0 {
		t.Errorf("lanes after Close: got %d, want none", got)
	}
	closeIt(t, c)
}

// A committer that sent nothing leaves nothing behind in etcd.
func TestUnusedCommitterTouchesNothing(t *testing.T) {
	w := faultkv.NewWorld(t)
	before := leaseCount(t, w.Client)
	c := NewCommitter(w.Store, "test")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Do(ctx, faultkv.PutTxn(w.Data+"a", ""))
	faultkv.WantErr(t, err, fault.ErrNotSent)
	_, err = c.Do(faultkv.Within(t), etcdkv.Txn{Else: []clientv3.Op{clientv3.OpDelete("x")}})
	faultkv.WantErr(t, err, fault.ErrInvalid)
	closeIt(t, c)
	if got := leaseCount(t, w.Client); got != before || w.Sent() != 0 {
		t.Errorf("leases: got %d, want %d; requests: got %d, want 0", got, before, w.Sent())
	}
}

func leaseCount(t *testing.T, cl *clientv3.Client) int {
	t.Helper()
	resp, err := cl.Leases(faultkv.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	return len(resp.Leases)
}
