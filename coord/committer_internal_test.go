package coord

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
	for name, lose := range map[string]func(w *world, lease clientv3.LeaseID) error{
		"lease revoked": func(w *world, lease clientv3.LeaseID) error {
			_, err := w.client.Revoke(t.Context(), lease)
			return err
		},
		"lane key deleted": func(w *world, _ clientv3.LeaseID) error {
			_, err := w.client.Delete(t.Context(), w.store.Keys().Lanes(), clientv3.WithPrefix())
			return err
		},
		"lane key overwritten": func(w *world, lease clientv3.LeaseID) error {
			_, err := w.client.Put(t.Context(), w.store.Keys().Lane("test."+keyspace.Hex16(uint64(lease)), 0), "x")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := openedCommitter(t, w)
			old := c.laneLeaseNow()
			if err := lose(w, old); err != nil {
				t.Fatal(err)
			}
			pending := together(t, w, c, []etcdkv.Txn{putTxn(w.data+"a", ""), {Then: []clientv3.Op{clientv3.OpDelete(w.data + "b")}}})
			for _, p := range pending {
				if r := mustWait(t, p); !r.Succeeded {
					t.Error("not applied")
				}
			}
			wantVersions(t, w, map[string]int64{"a": 1, "gate": 1})
			if c.laneLeaseNow() == old {
				t.Error("the lost lane's lease is still used")
			}
		})
	}
}

// Between two lanes a Txn is certainly not applied, and can be withdrawn again.
func TestWithdrawnBetweenTwoLanes(t *testing.T) {
	w := newWorld(t)
	c := openedCommitter(t, w)
	if _, err := w.client.Revoke(within(t), c.laneLeaseNow()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan struct{})
	w.mu.Lock()
	w.onGrant = func() {
		cancel()
		<-waited
	}
	w.mu.Unlock()
	_, err := c.Go(putTxn(w.data+"a", "")).Wait(ctx)
	close(waited)
	wantErr(t, err, fault.ErrNotSent)
	mustApply(t, c, putTxn(w.data+"b", ""))
	wantVersions(t, w, map[string]int64{"a": 0, "b": 1})
}

// An open outcome is unknown when the lane is gone; the lane is not used again.
func TestLostLaneAmbiguous(t *testing.T) {
	for _, applied := range []bool{true, false} {
		t.Run(fmt.Sprintf("applied %v", applied), func(t *testing.T) {
			w := newWorld(t)
			c := openedCommitter(t, w)
			old := c.laneLeaseNow()
			revoke := func() {
				if _, err := w.client.Revoke(within(t), old); err != nil {
					t.Error(err)
				}
			}
			if applied {
				w.faults(fate{lose: errLost, then: revoke})
			} else {
				// Lost on its way; the lease ends before the repeat.
				gate := make(chan struct{})
				w.faults(fate{refuse: errLost}, fate{hold: gate})
				go func() {
					defer close(gate)
					w.waitSent(t, 2)
					revoke()
				}()
			}
			_, err := c.Do(within(t), putTxn(w.data+"a", ""))
			wantErr(t, err, ErrUnknown)
			want := int64(0)
			if applied {
				want = 1
			}
			wantVersions(t, w, map[string]int64{"a": want})
			mustApply(t, c, putTxn(w.data+"b", ""))
			if got := w.lanes(t); got != 1 {
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
func culprits(w *world) []struct {
	name  string
	txn   etcdkv.Txn
	err   error
	faked bool
} {
	bad := w.data + "bad"
	return []struct {
		name  string
		txn   etcdkv.Txn
		err   error
		faked bool
	}{
		{"duplicate key", etcdkv.Txn{Then: []clientv3.Op{clientv3.OpPut(bad, "1"), clientv3.OpPut(bad, "2")}}, rpctypes.ErrDuplicateKey, false},
		{"lease not found", etcdkv.Txn{Then: []clientv3.Op{clientv3.OpPut(bad, "", clientv3.WithLease(4711))}}, rpctypes.ErrLeaseNotFound, false},
		{"key not found", etcdkv.Txn{Then: []clientv3.Op{clientv3.OpPut(bad, "", clientv3.WithIgnoreLease())}}, rpctypes.ErrKeyNotFound, false},
		{"request too large", putTxn(bad, ""), rpctypes.ErrRequestTooLarge, true},
		{"permission denied", putTxn(bad, ""), rpctypes.ErrPermissionDenied, true},
		{"an error that stays", putTxn(bad, ""), rpctypes.ErrCorrupt, true},
	}
}

// One unit that etcd refuses gets its error; the others of the batch are applied,
// and its origin travels alone for a while.
func TestOneBadUnitHarmsNobodyElse(t *testing.T) {
	for i := range 6 {
		w := newWorld(t)
		bad := culprits(w)[i]
		t.Run(bad.name, func(t *testing.T) {
			c := openedCommitter(t, w)
			bad.txn.Origin = "bad"
			var txns []etcdkv.Txn
			for n := range 20 {
				txns = append(txns, putTxn(fmt.Sprintf("%sgood-%d", w.data, n), ""))
			}
			txns[13] = bad.txn
			w.planBy(func(_ int, txn etcdkv.Txn) fate {
				if bad.faked && writesKey(txn, w.data+"bad") {
					return fate{refuse: bad.err}
				}
				return fate{}
			})
			for n, p := range togetherAs(t, w, c, txns) {
				r, err := p.Wait(within(t))
				if n == 13 {
					wantErr(t, err, bad.err)
				} else if err != nil || !r.Succeeded {
					t.Errorf("unit %d: got %v, want applied", n, err)
				} else {
					wantVersions(t, w, map[string]int64{fmt.Sprintf("good-%d", n): 1})
				}
			}
			wantVersions(t, w, map[string]int64{"bad": 0})
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
	w := newWorld(t)
	c := openedCommitter(t, w)
	w.faults(fate{refuse: fault.ErrNotSent})
	txn := putTxn(w.data+"a", "")
	txn.Origin = "unlucky"
	_, err := c.Do(within(t), txn)
	wantErr(t, err, fault.ErrNotSent)
	gate := make(chan struct{})
	w.faults(fate{hold: gate})
	first := c.Go(putTxn(w.data+"gate", ""))
	w.waitSent(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = c.Go(txn).Wait(ctx); errors.Is(err, ErrUnknown) {
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
		_, err := cl.Put(within(t), fmt.Sprintf("/fill/%d", n), fill)
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
	w := worldOn(t, cluster.Client(t))
	used, fresh := openedCommitter(t, w), committer(t, w)
	rev := map[*Committer]int64{used: w.put(t, "used", ""), fresh: w.put(t, "fresh", "")}
	fillUp(t, w.client)
	for c, name := range map[*Committer]string{used: "used", fresh: "fresh"} {
		for n := range 3 {
			_, err := c.Do(within(t), putTxn(fmt.Sprintf("%s%d", w.data, n), ""))
			wantErr(t, err, rpctypes.ErrNoSpace)
			if errors.Is(err, ErrUnknown) {
				t.Errorf("%s: got %v, want a certain error", name, err)
			}
			wantVersions(t, w, map[string]int64{fmt.Sprint(n): 0})
		}
		guarded := func(rev int64) etcdkv.Txn {
			return etcdkv.Txn{If: etcdkv.GuardOf(w.data+name, rev, ""), Then: []clientv3.Op{clientv3.OpDelete(w.data + name)}}
		}
		if r, err := c.Do(within(t), guarded(rev[c]-1)); err != nil || r.Succeeded {
			t.Errorf("%s: a delete under a stale guard: got %v %v, want refused", name, r.Succeeded, err)
		}
		mustApply(t, c, guarded(rev[c]))
		wantVersions(t, w, map[string]int64{name: 0})
		_, err := c.Do(within(t), etcdkv.Txn{Then: []clientv3.Op{clientv3.OpDelete(w.data + "x")}})
		wantErr(t, err, rpctypes.ErrNoSpace) // it could be applied twice
	}
	makeRoom(t, w.client)
	for _, c := range []*Committer{used, fresh} {
		mustApply(t, c, putTxn(w.data+"room", ""))
	}
}

// Etcd's quota may apply a batch and complain all the same: what the lane holds tells.
func TestAppliedAlthoughThereIsNoSpace(t *testing.T) {
	w := newWorld(t)
	c := openedCommitter(t, w)
	w.faults(fate{lose: rpctypes.ErrNoSpace})
	if r, err := c.Do(within(t), putTxn(w.data+"k", "")); err != nil || !r.Succeeded {
		t.Errorf("got %v %v, want applied", r.Succeeded, err)
	}
	w.faults(fate{refuse: errLost}, fate{refuse: rpctypes.ErrNoSpace}, fate{refuse: rpctypes.ErrNoSpace})
	_, err := c.Do(within(t), putTxn(w.data+"l", ""))
	wantErr(t, err, rpctypes.ErrNoSpace)
	wantVersions(t, w, map[string]int64{"k": 1, "l": 0})
}

func makeRoom(t *testing.T, cl *clientv3.Client) {
	t.Helper()
	resp, err := cl.Delete(within(t), "/fill/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cl.Compact(within(t), resp.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	if _, err := cl.Defragment(within(t), cl.Endpoints()[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := cl.AlarmDisarm(within(t), &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
}

// The caller's time ends while its Txn is queued: it is surely never applied.
func TestWithdrawnWhileQueued(t *testing.T) {
	w := newWorld(t)
	c := openedCommitter(t, w)
	gate := make(chan struct{})
	w.faults(fate{hold: gate})
	first := c.Go(putTxn(w.data+"gate", ""))
	w.waitSent(t, 1)
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	queued := c.Go(putTxn(w.data+"a", ""))
	cancel(cause)
	_, err := queued.Wait(ctx)
	wantErr(t, err, cause)
	if errors.Is(err, ErrUnknown) {
		t.Errorf("got %v, want a certain error", err)
	}
	// Waiting again gives the same answer, with any ctx.
	_, again := queued.Wait(within(t))
	wantErr(t, again, cause)
	_, err = c.Do(ctx, putTxn(w.data+"b", "")) // ended before it began
	wantErr(t, err, cause)
	close(gate)
	mustWait(t, first)
	mustApply(t, c, putTxn(w.data+"z", ""))
	wantVersions(t, w, map[string]int64{"a": 0, "b": 0, "z": 1})
}

// Withdrawn Txns do not pile up behind a flight that never ends.
func TestWithdrawnUnitsDoNotPileUp(t *testing.T) {
	w := newWorld(t)
	c := openedCommitter(t, w)
	gate := make(chan struct{})
	w.faults(fate{hold: gate})
	first := c.Go(putTxn(w.data+"gate", ""))
	w.waitSent(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	kept := c.Go(putTxn(w.data+"kept", ""))
	for range 20 * maxWithdrawn {
		if _, err := c.Go(putTxn(w.data+"a", "")).Wait(ctx); !errors.Is(err, fault.ErrNotSent) {
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
	wantVersions(t, w, map[string]int64{"a": 0, "kept": 1})
}

// The caller's time ends while its Txn is in flight: the outcome is unknown now,
// and found out behind.
func TestUnknownWhileInFlight(t *testing.T) {
	w := newWorld(t)
	c := openedCommitter(t, w)
	gate := make(chan struct{})
	w.faults(fate{lose: errLost}, fate{hold: gate})
	ctx, cancel := context.WithCancel(t.Context())
	p := c.Go(putTxn(w.data+"a", ""))
	w.waitSent(t, 2)
	cancel()
	_, err := p.Wait(ctx)
	wantErr(t, err, ErrUnknown)
	wantErr(t, err, context.Canceled)
	wantErr(t, err, errLost) // why it took so long
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
	wantVersions(t, w, map[string]int64{"a": 1})
}

// A slow flight holds up nobody: another lane takes what waits.
func TestSlowFlightOpensAnotherLane(t *testing.T) {
	w := newWorld(t)
	c := openedCommitter(t, w)
	gate := make(chan struct{})
	w.faults(fate{hold: gate})
	slow := c.Go(putTxn(w.data+"slow", ""))
	w.waitSent(t, 1)
	mustApply(t, c, putTxn(w.data+"a", ""))
	mustApply(t, c, putTxn(w.data+"b", ""))
	select {
	case <-slow.Done():
		t.Error("the slow one cannot be done")
	default:
	}
	if got := w.lanes(t); got != 2 {
		t.Errorf("lanes: got %d, want 2", got)
	}
	close(gate)
	mustWait(t, slow)
	mustApply(t, c, putTxn(w.data+"c", ""))
	if got := w.lanes(t); got != 2 {
		t.Errorf("lanes afterwards: got %d, want 2", got)
	}
	wantVersions(t, w, map[string]int64{"slow": 1, "a": 1, "b": 1, "c": 1})
}

func TestCloseDrains(t *testing.T) {
	w := newWorld(t)
	w.put(t, "connected", "")
	leaks := goleak.IgnoreCurrent()
	c := NewCommitter(w.store, "test")
	mustApply(t, c, putTxn(w.data+"opened", ""))
	gate := make(chan struct{})
	w.faults(fate{hold: gate})
	flying := c.Go(putTxn(w.data+"a", ""))
	w.waitSent(t, 1)
	queued := c.Go(putTxn(w.data+"b", ""))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, c.drain(ctx), context.Canceled) // closed from here on, not drained yet
	_, err := c.Do(within(t), putTxn(w.data+"late", ""))
	wantErr(t, err, ErrClosed)
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
	if got := w.lanes(t); got != 0 {
		t.Errorf("lanes after Close: got %d, want none", got)
	}
	closeIt(t, c) // once more
	goleak.VerifyNone(t, leaks)
}

func TestCloseIsBounded(t *testing.T) {
	w := newWorld(t)
	c := NewCommitter(w.store, "test")
	mustApply(t, c, putTxn(w.data+"opened", ""))
	w.planBy(func(int, etcdkv.Txn) fate { return fate{hold: make(chan struct{})} })
	flying := c.Go(putTxn(w.data+"a", ""))
	w.waitSent(t, 1)
	queued := c.Go(putTxn(w.data+"b", ""))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("close: got %v, want that it was cut short", err)
	}
	_, err := flying.Wait(within(t))
	wantErr(t, err, ErrUnknown)
	if errors.Is(err, ErrClosed) {
		t.Errorf("in flight: got %v, which promises that nothing was written", err)
	}
	_, err = queued.Wait(within(t))
	wantErr(t, err, ErrClosed)
	if errors.Is(err, ErrUnknown) {
		t.Errorf("queued: got %v, want a certain error", err)
	}
	_, err = c.Do(within(t), putTxn(w.data+"c", ""))
	wantErr(t, err, ErrClosed)
	if got := w.lanes(t); got != 0 {
		t.Errorf("lanes after Close: got %d, want none", got)
	}
	closeIt(t, c)
}

// A committer that sent nothing leaves nothing behind in etcd.
func TestUnusedCommitterTouchesNothing(t *testing.T) {
	w := newWorld(t)
	before := leaseCount(t, w.client)
	c := NewCommitter(w.store, "test")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Do(ctx, putTxn(w.data+"a", ""))
	wantErr(t, err, fault.ErrNotSent)
	_, err = c.Do(within(t), etcdkv.Txn{Else: []clientv3.Op{clientv3.OpDelete("x")}})
	wantErr(t, err, ErrInvalid)
	closeIt(t, c)
	if got := leaseCount(t, w.client); got != before || w.sent() != 0 {
		t.Errorf("leases: got %d, want %d; requests: got %d, want 0", got, before, w.sent())
	}
}

func leaseCount(t *testing.T, cl *clientv3.Client) int {
	t.Helper()
	resp, err := cl.Leases(within(t))
	if err != nil {
		t.Fatal(err)
	}
	return len(resp.Leases)
}
