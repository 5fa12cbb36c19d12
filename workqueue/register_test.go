package workqueue_test

import (
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/workqueue"
)

// registrations are the entries of the queue's workers.
func registrations(t *testing.T, cl *clientv3.Client, root string) *clientv3.GetResponse {
	t.Helper()
	resp, err := cl.Get(bounded(t), keysOf(t, root).Workers(), clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// However somebody takes a worker's registration away, it registers again, in both modes,
// on its session's lease, and says no more than it has to.
func TestAWorkerRegistersAgain(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{workqueue.ModeClaim, workqueue.ModeDispatch} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			cl, root := shared(t)
			q := openAt(t, cl, workqueue.Config{Root: root})
			if err := q.SetMode(bounded(t), mode, ann); err != nil {
				t.Fatal(err)
			}
			run(t, openAt(t, cl, workqueue.Config{Root: root}), workqueue.WorkerConfig{StandForDispatcher: true, Concurrency: 7}, counting(&tally{}))
			enqueue(t, q, workqueue.Params{ID: "before"})
			wait(t, q, "before")
			kv := registrations(t, cl, root).Kvs[0]
			for name, take := range map[string]func() error{
				"deleted":   func() error { _, err := cl.Delete(bounded(t), string(kv.Key)); return err },
				"a grave":   func() error { _, err := cl.Put(bounded(t), string(kv.Key), `{"left":true}`); return err },
				"nonsense":  func() error { _, err := cl.Put(bounded(t), string(kv.Key), "nonsense"); return err },
				"busy":      func() error { _, err := cl.Put(bounded(t), string(kv.Key), `{"concurrency":0}`); return err },
				"all kinds": func() error { _, err := cl.Put(bounded(t), string(kv.Key), `{"w":"0","concurrency":9}`); return err },
			} {
				if err := take(); err != nil {
					t.Fatal(err)
				}
				until(t, cl, root, name+": the worker is registered again", func() bool {
					kvs := registrations(t, cl, root).Kvs
					return len(kvs) == 1 && kvs[0].Lease == kv.Lease && strings.Contains(string(kvs[0].Value), `"concurrency":7`)
				})
			}
			enqueue(t, q, workqueue.Params{ID: "after"})
			wait(t, q, "after")
			kvs := registrations(t, cl, root).Kvs
			if n := kvs[0].Version; n > 10 {
				t.Errorf("it was written %d times since it was deleted", n)
			}
		})
	}
}
