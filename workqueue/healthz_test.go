package workqueue_test

import (
	"context"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/workqueue"
)

// A worker is well before and after Run, and while it has a session; not while it can
// have none.
func TestWorkerHealthz(t *testing.T) {
	p := newTroubled(t)
	w, err := workqueue.NewWorker(p.q, counting(&tally{}), workqueue.WorkerConfig{SessionTTL: outlasts})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Healthz(nil); err != nil {
		t.Errorf("before Run: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	lease := awaitRegistered(t, p.cl, p.root)
	if err := w.Healthz(nil); err != nil {
		t.Errorf("while it works: %v", err)
	}
	p.plan.Set(func(c etcdtest.Call) etcdtest.Fate {
		if c.Method == "LeaseGrant" {
			return etcdtest.Fate{Refuse: rpctypes.ErrGRPCNoSpace}
		}
		return etcdtest.Fate{}
	})
	if _, err := p.cl.Revoke(bounded(t), lease); err != nil {
		t.Fatal(err)
	}
	until(t, p.cl, p.root, "the worker is not well", func() bool { return w.Healthz(nil) != nil })
	p.plan.Set(nil)
	until(t, p.cl, p.root, "the worker is well again", func() bool { return w.Healthz(nil) == nil })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := w.Healthz(nil); err != nil {
		t.Errorf("after Run: %v", err)
	}
}
