package lane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
	"github.com/leasekit/leasekit/internal/faultkv"
)

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
