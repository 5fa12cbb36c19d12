package lane

import (
	"context"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/faultkv"
)

func committer(t *testing.T, w *faultkv.World) *Committer {
	t.Helper()
	c := NewCommitter(w.Store, "test")
	t.Cleanup(func() { closeIt(t, c) })
	return c
}

func closeIt(t *testing.T, c *Committer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), faultkv.Deadline)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		t.Errorf("close committer: %v", err)
	}
}

// openedCommitter has a lane that was used once, so that the next Txn is the
// first that meets a plan.
func openedCommitter(t *testing.T, w *faultkv.World) *Committer {
	t.Helper()
	c := committer(t, w)
	mustApply(t, c, etcdkv.Txn{Then: []clientv3.Op{clientv3.OpPut(w.Data+"opened", "")}})
	return c
}

// together hands Txns over such that they travel in one batch, which meets the
// faults.
func together(t *testing.T, w *faultkv.World, c *Committer, txns []etcdkv.Txn, faults ...faultkv.Fate) []*Pending {
	t.Helper()
	w.Faults(faults...)
	return togetherAs(t, w, c, txns)
}

// togetherAs is together under the plan in force.
func togetherAs(t *testing.T, w *faultkv.World, c *Committer, txns []etcdkv.Txn) []*Pending {
	t.Helper()
	gate := make(chan struct{})
	w.Mu.Lock()
	plan := w.Plan
	w.Count, w.Plan = 0, func(n int, txn etcdkv.Txn) faultkv.Fate {
		if n == 1 {
			return faultkv.Fate{Hold: gate}
		}
		return plan(n-1, txn)
	}
	w.Mu.Unlock()
	first := c.Go(etcdkv.Txn{Then: []clientv3.Op{clientv3.OpPut(w.Data+"gate", "")}})
	w.WaitSent(t, 1)
	var pending []*Pending
	for _, txn := range txns {
		pending = append(pending, c.Go(txn))
	}
	close(gate)
	if _, err := first.Wait(faultkv.Within(t)); err != nil {
		t.Fatal(err)
	}
	return pending
}

func mustApply(t *testing.T, c *Committer, txn etcdkv.Txn) Result {
	t.Helper()
	r, err := c.Do(faultkv.Within(t), txn)
	if err != nil || !r.Succeeded {
		t.Fatalf("commit: got succeeded %v, error %v, want applied", r.Succeeded, err)
	}
	return r
}

func mustWait(t *testing.T, p *Pending) Result {
	t.Helper()
	r, err := p.Wait(faultkv.Within(t))
	if err != nil {
		t.Fatalf("commit: %v", err)
	}
	return r
}
