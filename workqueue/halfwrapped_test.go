package workqueue_test

import (
	"errors"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/election"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/workqueue"
)

// A client of which only a part is in a namespace is refused at once; a whole one works.
func TestHalfWrappedClientsAreRefused(t *testing.T) {
	t.Parallel()
	root := etcdtest.Root(t)
	wrap := func(change func(*clientv3.Client)) *clientv3.Client {
		client := etcdtest.NewClient(t, etcdtest.Shared(t).Endpoints())
		change(client)
		return client
	}
	kv := func(prefix string) func(*clientv3.Client) {
		return func(c *clientv3.Client) { c.KV = namespace.NewKV(c.KV, prefix) }
	}
	watcher := func(prefix string) func(*clientv3.Client) {
		return func(c *clientv3.Client) { c.Watcher = namespace.NewWatcher(c.Watcher, prefix) }
	}
	both := func(a, b func(*clientv3.Client)) func(*clientv3.Client) {
		return func(c *clientv3.Client) { a(c); b(c) }
	}
	for name, client := range map[string]*clientv3.Client{
		"KV alone":      wrap(kv("a/")),
		"watcher alone": wrap(watcher("a/")),
		"two prefixes":  wrap(both(kv("a/"), watcher("b/"))),
		"one nested":    wrap(both(both(kv("a/"), kv("b/")), watcher("b/"))),
		"no parts":      clientv3.NewCtxClient(t.Context()),
		"nil":           nil,
	} {
		_, err := workqueue.Open(bounded(t), client, workqueue.Config{Queue: "q", Root: root})
		_, serr := coord.OpenSession(bounded(t), client, coord.SessionConfig{Root: root})
		_, eerr := election.New(client, election.Config{Name: "e", Root: root})
		for call, err := range map[string]error{"queue": err, "session": serr, "election": eerr} {
			var input *coord.InputError
			if !errors.As(err, &input) || input.Field != "client" {
				t.Errorf("%s: %s: got %v", name, call, err)
			}
		}
	}
	whole := wrap(both(both(kv("a/"), kv("b/")), both(watcher("a/"), watcher("b/"))))
	q := openAt(t, whole, workqueue.Config{Root: root})
	runHandler(t, q, workqueue.WorkerConfig{}, knowing("k"))
	enqueue(t, q, workqueue.Params{ID: "x", Kind: "k"})
	if j := wait(t, q, "x"); j.State != workqueue.StateDone {
		t.Errorf("got %s", j.State)
	}
	resp, err := etcdtest.Shared(t).Client(t).Get(bounded(t), "a/b/"+root, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil || resp.Count == 0 {
		t.Errorf("nothing is in the namespace: %v, %v", resp, err)
	}
}
