package workqueue_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/workqueue"
)

// patience bounds what a test waits for; nothing is expected to take that long.
const patience = 3 * time.Minute

// bounded is the test's context with a deadline.
func bounded(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// openAt opens a queue with a client, and closes it in t's cleanup.
func openAt(t testing.TB, cl *clientv3.Client, cfg workqueue.Config) *workqueue.Queue {
	t.Helper()
	if cfg.Queue == "" {
		cfg.Queue = "q"
	}
	q, err := workqueue.Open(bounded(t), cl, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// A busy etcd may not answer in the seconds that Close takes at most.
		if err := q.Close(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close queue: %v", err)
		}
	})
	return q
}

// outlasts is the TTL of what no test waits to expire: it outlasts a machine that stands still.
const outlasts = time.Minute

// session opens a session, and closes it in t's cleanup.
func session(t testing.TB, cl *clientv3.Client, root string) *coord.Session {
	t.Helper()
	s, err := coord.OpenSession(bounded(t), cl, coord.SessionConfig{Root: root, TTL: outlasts})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("close session: %v", err)
		}
	})
	return s
}

// running is a worker under way.
type running struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// run starts a worker; it is stopped in t's cleanup at the latest. Its session outlasts the test, unless cfg says more.
func run(t testing.TB, q *workqueue.Queue, cfg workqueue.WorkerConfig, h workqueue.HandlerFunc) *running {
	t.Helper()
	return runHandler(t, q, cfg, h)
}

func runHandler(t testing.TB, q *workqueue.Queue, cfg workqueue.WorkerConfig, h workqueue.Handler) *running {
	t.Helper()
	if cfg.SessionTTL == 0 && cfg.SessionKeeper == nil {
		cfg.SessionTTL = outlasts
	}
	w, err := workqueue.NewWorker(q, h, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = w.Run(ctx)
	}()
	t.Cleanup(func() { _ = r.stop(t) })
	return r
}

// stop stops the worker and returns what Run returned.
func (r *running) stop(t testing.TB) error {
	t.Helper()
	r.cancel()
	select {
	case <-r.done:
		return r.err
	case <-time.After(patience):
		t.Error("the worker does not stop")
		return errors.New("still running")
	}
}

func enqueue(t testing.TB, q *workqueue.Queue, items ...workqueue.Params) []*workqueue.Job {
	t.Helper()
	results, err := q.EnqueueBatch(bounded(t), items)
	if err != nil {
		t.Fatal(err)
	}
	jobs := make([]*workqueue.Job, len(items))
	for i, r := range results {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		jobs[i] = r.Job
	}
	return jobs
}

// numbered makes n items with ids j0, j1, ...
func numbered(n int, p workqueue.Params) []workqueue.Params {
	items := make([]workqueue.Params, n)
	for i := range items {
		items[i] = p
		items[i].ID = "j" + itoa(i)
	}
	return items
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + string(rune('0'+n%10))
}

// claim claims a job, waiting until there is one that can be claimed.
func claim(t testing.TB, cl *clientv3.Client, root string, q *workqueue.Queue, s *coord.Session) *workqueue.Claim {
	t.Helper()
	var c *workqueue.Claim
	until(t, cl, root, "a job can be claimed", func() bool {
		var err error
		if c, err = q.Claim(bounded(t), s); err != nil && !errors.Is(err, workqueue.ErrEmpty) {
			t.Fatal(err)
		}
		return c != nil
	})
	return c
}

// until blocks until cond holds, and looks again at every change below root. The
// ticker is for conditions that change without one.
func until(t testing.TB, cl *clientv3.Client, root, what string, cond func() bool) {
	t.Helper()
	ctx := bounded(t)
	watchCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := cl.Watch(watchCtx, root, clientv3.WithPrefix())
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-watch:
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("it never came that %s", what)
		}
	}
}

// receive takes one value from a channel, or fails.
func receive[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("it never came that %s", what)
	}
	panic("unreachable")
}

func get(t testing.TB, q *workqueue.Queue, id string) *workqueue.Job {
	t.Helper()
	j, err := q.Get(bounded(t), id)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func wait(t testing.TB, q *workqueue.Queue, id string) *workqueue.Job {
	t.Helper()
	j, err := q.Wait(bounded(t), id)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// trail is a job's audit trail as text, such as "failed completed".
func trail(j *workqueue.Job) string {
	s := ""
	for i, a := range j.Attempts {
		if i > 0 {
			s += " "
		}
		s += a.Outcome
	}
	return s
}

// tally counts things by name. Safe for concurrent use.
type tally struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *tally) add(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[name]++
	return c.n[name]
}

func (c *tally) get(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[name]
}

// keysOf are the keys of the queue "q" under root.
func keysOf(t testing.TB, root string) keyspace.QueueKeys {
	t.Helper()
	space, err := keyspace.New(root)
	if err != nil {
		t.Fatal(err)
	}
	return space.Queue("q")
}

// shared is the package's cluster, and a root of t's own on it.
func shared(t testing.TB) (cl *clientv3.Client, root string) {
	t.Helper()
	return etcdtest.Shared(t).Client(t), etcdtest.Root(t)
}
