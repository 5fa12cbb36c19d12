package coord

import (
	"context"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/faultkv"
	"github.com/leasekit/leasekit/internal/lane"
)

// ownCommitter is a committer of the test's own, closed with it.
func ownCommitter(t *testing.T, w *faultkv.World) *lane.Committer {
	t.Helper()
	c := lane.NewCommitter(w.Store, "test")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), faultkv.Deadline)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Errorf("close committer: %v", err)
		}
	})
	return c
}

// usedCommitter has a lane already, so that the next Txn is the first that meets a plan.
func usedCommitter(t *testing.T, w *faultkv.World) *lane.Committer {
	t.Helper()
	c := ownCommitter(t, w)
	applied(t, c, etcdkv.Txn{Then: []clientv3.Op{clientv3.OpPut(w.Data+"opened", "")}})
	return c
}

func applied(t *testing.T, c *lane.Committer, txn etcdkv.Txn) lane.Result {
	t.Helper()
	r, err := c.Do(faultkv.Within(t), txn)
	if err != nil || !r.Succeeded {
		t.Fatalf("commit: got succeeded %v, error %v, want applied", r.Succeeded, err)
	}
	return r
}
