package lane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/leasekit/leasekit/integration/etcdtest"
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

// culprits are the ways in which etcd refuses one unit outright. A nil refusal
// is the server's own.
func culprits(w *faultkv.World) []struct {
	name  string
	txn   etcdkv.Txn
	err   error
	faked bool
} {
	bad := w.Data + "bad"
	return []struct {
		name  string
		txn   etcdkv.Txn
		err   error
		faked bool
	}{
		{"duplicate key", etcdkv.Txn{Then: []clientv3.Op{clientv3.OpPut(bad, "1"), clientv3.OpPut(bad, "2")}}, rpctypes.ErrDuplicateKey, false},
		{"lease not found", etcdkv.Txn{Then: []clientv3.Op{clientv3.OpPut(bad, "", clientv3.WithLease(4711))}}, rpctypes.ErrLeaseNotFound, false},
		{"key not found", etcdkv.Txn{Then: []clientv3.Op{clientv3.OpPut(bad, "", clientv3.WithIgnoreLease())}}, rpctypes.ErrKeyNotFound, false},
		{"request too large", faultkv.PutTxn(bad, ""), rpctypes.ErrRequestTooLarge, true},
		{"permission denied", faultkv.PutTxn(bad, ""), rpctypes.ErrPermissionDenied, true},
		{"an error that stays", faultkv.PutTxn(bad, ""), rpctypes.ErrCorrupt, true},
	}
}

// One unit that etcd refuses gets its error; the others of the batch are applied,
// and its origin travels alone for a while.
func TestOneBadUnitHarmsNobodyElse(t *testing.T) {
	for i := range 6 {
		w := faultkv.NewWorld(t)
		bad := culprits(w)[i]
		t.Run(bad.name, func(t *testing.T) {
			c := openedCommitter(t, w)
			bad.txn.Origin = "bad"
			var txns []etcdkv.Txn
			for n := range 20 {
				txns = append(txns, faultkv.PutTxn(fmt.Sprintf("%sgood-%d", w.Data, n), ""))
			}
			txns[13] = bad.txn
			w.PlanBy(func(_ int, txn etcdkv.Txn) faultkv.Fate {
				if bad.faked && writesKey(txn, w.Data+"bad") {
					return faultkv.Fate{Refuse: bad.err}
				}
				return faultkv.Fate{}
			})
			for n, p := range togetherAs(t, w, c, txns) {
				r, err := p.Wait(faultkv.Within(t))
				if n == 13 {
					faultkv.WantErr(t, err, bad.err)
				} else if err != nil || !r.Succeeded {
					t.Errorf("unit %d: got %v, want applied", n, err)
				} else {
					faultkv.WantVersions(t, w, map[string]int64{fmt.Sprintf("good-%d", n): 1})
				}
			}
			faultkv.WantVersions(t, w, map[string]int64{"bad": 0})
			c.mu.Lock()
			defer c.mu.Unlock()
			if !c.travelsAlone("bad") || c.travelsAlone("") {
				t.Error("the culprit's origin must travel alone, and nobody else's")
			}
		})
	}
}

func writesKey(txn etcdkv.Txn, key string) bool {
	for _, op := range txn.Then {
		if op.IsTxn() {
			cmps, then, els := op.Txn()
			if writesKey(etcdkv.Txn{If: cmps, Then: then, Else: els}, key) {
				return true
			}
		} else if op.IsPut() && string(op.KeyBytes()) == key {
			return true
		}
	}
	return false
}

// Failures that are not etcd's judgement of a unit send nobody into quarantine.
func TestOnlyARefusalByEtcdIsolatesAnOrigin(t *testing.T) {
	w := faultkv.NewWorld(t)
	c := openedCommitter(t, w)
	w.Faults(faultkv.Fate{Refuse: fault.ErrNotSent})
	txn := faultkv.PutTxn(w.Data+"a", "")
	txn.Origin = "unlucky"
	_, err := c.Do(faultkv.Within(t), txn)
	faultkv.WantErr(t, err, fault.ErrNotSent)
	gate := make(chan struct{})
	w.Faults(faultkv.Fate{Hold: gate})
	first := c.Go(faultkv.PutTxn(w.Data+"gate", ""))
	w.WaitSent(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = c.Go(txn).Wait(ctx); errors.Is(err, fault.ErrUnknown) {
		t.Errorf("withdrawn: got %v, want a certain error", err)
	}
	close(gate)
	mustWait(t, first)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.solo) != 0 {
		t.Errorf("origins alone: got %v, want none", c.solo)
	}
}

// fillUp makes etcd refuse every put.
func fillUp(t *testing.T, cl *clientv3.Client) {
	t.Helper()
	fill := strings.Repeat("x", 200<<10)
	for n := 0; ; n++ {
		_, err := cl.Put(faultkv.Within(t), fmt.Sprintf("/fill/%d", n), fill)
		if errors.Is(err, rpctypes.ErrNoSpace) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A full etcd: what puts is told so at once and wrote nothing, what only deletes under
// a guard gets through, by a committer that has no lane yet too.
func TestSurvives_38_NoSpace(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.New(t, etcdtest.Config{QuotaBackendBytes: 4 << 20})
	w := faultkv.WorldOn(t, cluster.Client(t))
	used, fresh := openedCommitter(t, w), committer(t, w)
	rev := map[*Committer]int64{used: w.Put(t, "used", ""), fresh: w.Put(t, "fresh", "")}
	fillUp(t, w.Client)
	for c, name := range map[*Committer]string{used: "used", fresh: "fresh"} {
		for n := range 3 {
			_, err := c.Do(faultkv.Within(t), faultkv.PutTxn(fmt.Sprintf("%s%d", w.Data, n), ""))
			faultkv.WantErr(t, err, rpctypes.ErrNoSpace)
			if errors.Is(err, fault.ErrUnknown) {
				t.Errorf("%s: got %v, want a certain error", name, err)
			}
			faultkv.WantVersions(t, w, map[string]int64{fmt.Sprint(n): 0})
		}
		guarded := func(rev int64) etcdkv.Txn {
			return etcdkv.Txn{If: etcdkv.GuardOf(w.Data+name, rev, ""), Then: []clientv3.Op{clientv3.OpDelete(w.Data + name)}}
		}
		if r, err := c.Do(faultkv.Within(t), guarded(rev[c]-1)); err != nil || r.Succeeded {
			t.Errorf("%s: a delete under a stale guard: got %v %v, want refused", name, r.Succeeded, err)
		}
		mustApply(t, c, guarded(rev[c]))
		faultkv.WantVersions(t, w, map[string]int64{name: 0})
		_, err := c.Do(faultkv.Within(t), etcdkv.Txn{Then: []clientv3.Op{clientv3.OpDelete(w.Data + "x")}})
		faultkv.WantErr(t, err, rpctypes.ErrNoSpace) // it could be applied twice
	}
	makeRoom(t, w.Client)
	for _, c := range []*Committer{used, fresh} {
		mustApply(t, c, faultkv.PutTxn(w.Data+"room", ""))
	}
}

// Etcd's quota may apply a batch and complain all the same: what the lane holds tells.
func TestAppliedAlthoughThereIsNoSpace(t *testing.T) {
	w := faultkv.NewWorld(t)
	c := openedCommitter(t, w)
	w.Faults(faultkv.Fate{Lose: rpctypes.ErrNoSpace})
	if r, err := c.Do(faultkv.Within(t), faultkv.PutTxn(w.Data+"k", "")); err != nil || !r.Succeeded {
		t.Errorf("got %v %v, want applied", r.Succeeded, err)
	}
	w.Faults(faultkv.Fate{Refuse: faultkv.ErrLost}, faultkv.Fate{Refuse: rpctypes.ErrNoSpace}, faultkv.Fate{Refuse: rpctypes.ErrNoSpace})
	_, err := c.Do(faultkv.Within(t), faultkv.PutTxn(w.Data+"l", ""))
	faultkv.WantErr(t, err, rpctypes.ErrNoSpace)
	faultkv.WantVersions(t, w, map[string]int64{"k": 1, "l": 0})
}

func makeRoom(t *testing.T, cl *clientv3.Client) {
	t.Helper()
	resp, err := cl.Delete(faultkv.Within(t), "/fill/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cl.Compact(faultkv.Within(t), resp.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	if _, err := cl.Defragment(faultkv.Within(t), cl.Endpoints()[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := cl.AlarmDisarm(faultkv.Within(t), &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
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
