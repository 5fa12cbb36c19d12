package workqueue_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/workqueue"
)

// gate holds a client's Txns back while it is shut, with their answers or without.
type gate struct {
	mu     sync.Mutex
	shut   chan struct{} // nil: open
	caught chan struct{}
}

func newGate() *gate { return &gate{caught: make(chan struct{}, 1000)} }

func (g *gate) option() grpc.DialOption { return grpc.WithChainUnaryInterceptor(g.intercept) }

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = make(chan struct{})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
	}
}

func (g *gate) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut != nil && method == "/etcdserverpb.KV/Txn" {
		g.caught <- struct{}{}
		select {
		case <-shut:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

// A claim that is under way when the worker begins to stop comes to it all the same: its
// handler does not begin, and the job goes back as if nothing had been.
func TestNoHandlerBeginsOnceTheWorkerStops(t *testing.T) {
	c, root := etcdtest.Shared(t), etcdtest.Root(t)
	g := newGate()
	q := openAt(t, c.Client(t, g.option()), workqueue.Config{Root: root})
	other := openAt(t, c.Client(t), workqueue.Config{Root: root})
	var began atomic.Int32
	w := run(t, q, workqueue.WorkerConfig{}, func(context.Context, *workqueue.Claim) ([]byte, error) {
		began.Add(1)
		return nil, nil
	})
	awaitRegistered(t, c.Client(t), root)
	g.close()
	if _, err := other.Enqueue(bounded(t), workqueue.Params{ID: "x"}); err != nil {
		t.Fatal(err)
	}
	receive(t, g.caught, "the claim is sent")
	w.cancel()
	g.open()
	if err := w.stop(t); err != nil {
		t.Error(err)
	}
	j := get(t, other, "x")
	if began.Load() != 0 || j.State != workqueue.StateReady || j.Failures != 0 || j.Losses != 0 {
		t.Errorf("%d handlers began; the job is %s, %d failures, %d losses", began.Load(), j.State, j.Failures, j.Losses)
	}
}

// An etcd that gives no answer does not keep a worker from its end: what is on its way
// goes on behind.
func TestStopDoesNotWaitForAnEtcdThatIsAway(t *testing.T) {
	c, root := etcdtest.Shared(t), etcdtest.Root(t)
	g := newGate()
	defer g.open()
	q := openAt(t, c.Client(t, g.option()), workqueue.Config{Root: root})
	if _, err := q.Enqueue(bounded(t), workqueue.Params{ID: "x"}); err != nil {
		t.Fatal(err)
	}
	settled := make(chan workqueue.Settlement, 1)
	w := run(t, q, workqueue.WorkerConfig{
		DrainTimeout: -1, Grace: 100 * time.Millisecond,
		Hooks: workqueue.Hooks{Settled: func(_ *workqueue.Job, s workqueue.Settlement) { settled <- s }},
	}, func(context.Context, *workqueue.Claim) ([]byte, error) {
		g.close()
		return nil, nil
	})
	receive(t, g.caught, "the result is sent")
	began := time.Now()
	w.cancel()
	receive(t, w.done, "Run ends")
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("Run ended after %v", took)
	}
	if s := receive(t, settled, "the hook hears of it"); !errors.Is(s.Err, coord.ErrUnknown) {
		t.Errorf("settled with %v, want unknown", s.Err)
	}
	g.open()
	if j, err := q.Wait(bounded(t), "x"); err != nil || j.State != workqueue.StateDone {
		t.Errorf("the result did not go on: %v, %v", j, err)
	}
}

// A process whose etcd goes away before it stops ends all the same, with a handler that
// hung, a result that found no way, and a dispatcher beside: each step has its seconds.
func TestAProcessEndsInTimeWithoutEtcd(t *testing.T) {
	t.Parallel()
	c, root := etcdtest.New(t, etcdtest.Config{Proxies: true}), etcdtest.Root(t)
	other := openAt(t, c.Client(t), workqueue.Config{Root: root})
	if err := other.SetMode(bounded(t), workqueue.ModeDispatch, workqueue.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	enqueue(t, other, workqueue.Params{ID: "hangs"}, workqueue.Params{ID: "returns"})
	q, err := workqueue.Open(bounded(t), c.ProxiedClient(t), workqueue.Config{Queue: "q", Root: root})
	if err != nil {
		t.Fatal(err)
	}
	began, hung := make(chan struct{}, 2), make(chan struct{})
	defer close(hung)
	w := run(t, q, workqueue.WorkerConfig{
		DrainTimeout: -1, Grace: 100 * time.Millisecond, StandForDispatcher: true,
	}, func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
		began <- struct{}{}
		if c.Job().ID == "hangs" {
			<-hung
		}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	for range 2 {
		receive(t, began, "a handler begins")
	}
	c.Proxy(0).Pause()
	defer c.Proxy(0).Heal()
	stopping := time.Now()
	w.cancel()
	receive(t, w.done, "Run ends")
	if w.err == nil {
		t.Error("Run does not tell of the handler that still runs")
	}
	if took := time.Since(stopping); took > 16*time.Second { // 9 s for the dispatcher, 3 s for the session, and a busy machine
		t.Errorf("Run ended after %v", took)
	}
	stopping = time.Now()
	_ = q.Close()
	if took := time.Since(stopping); took > 12*time.Second {
		t.Errorf("the queue was closed after %v", took)
	}
}

// A worker of one job whose claim came to nothing with its session gets another session.
func TestLimitOutlivesTheSession(t *testing.T) {
	c, root := etcdtest.Shared(t), etcdtest.Root(t)
	g := newGate()
	q := openAt(t, c.Client(t, g.option()), workqueue.Config{Root: root})
	other := openAt(t, c.Client(t), workqueue.Config{Root: root})
	w := run(t, q, workqueue.WorkerConfig{Limit: 1}, func(context.Context, *workqueue.Claim) ([]byte, error) { return nil, nil })
	lease := awaitRegistered(t, c.Client(t), root)
	g.close()
	if _, err := other.Enqueue(bounded(t), workqueue.Params{ID: "x"}); err != nil {
		t.Fatal(err)
	}
	receive(t, g.caught, "the claim is sent")
	if _, err := c.Client(t).Revoke(bounded(t), lease); err != nil {
		t.Fatal(err)
	}
	g.open()
	receive(t, w.done, "Run ends")
	if j := get(t, other, "x"); w.err != nil || j.State != workqueue.StateDone {
		t.Errorf("Run ended with %v; the job is %s", w.err, j.State)
	}
}

// A worker with a limit ends although a handler that it gave up never returns.
func TestLimitWithAHungHandler(t *testing.T) {
	c, root := etcdtest.Shared(t), etcdtest.Root(t)
	q := openAt(t, c.Client(t), workqueue.Config{Root: root})
	for range 2 {
		if _, err := q.Enqueue(bounded(t), workqueue.Params{}); err != nil {
			t.Fatal(err)
		}
	}
	returns := make(chan struct{})
	defer close(returns)
	var first atomic.Bool
	w := run(t, q, workqueue.WorkerConfig{Limit: 2, Timeout: 200 * time.Millisecond, Grace: 100 * time.Millisecond}, func(context.Context, *workqueue.Claim) ([]byte, error) {
		if first.CompareAndSwap(false, true) {
			<-returns
		}
		return nil, nil
	})
	receive(t, w.done, "Run ends")
	if w.err == nil {
		t.Error("Run does not tell of the handler that still runs")
	}
}

func TestWorkerRunsOnce(t *testing.T) {
	c, root := etcdtest.Shared(t), etcdtest.Root(t)
	q := openAt(t, c.Client(t), workqueue.Config{Root: root})
	w, err := workqueue.NewWorker(q, workqueue.HandlerFunc(func(context.Context, *workqueue.Claim) ([]byte, error) { return nil, nil }), workqueue.WorkerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Run(ended); err != nil {
		t.Error(err)
	}
	if err := w.Run(ended); !errors.Is(err, coord.ErrInvalid) {
		t.Errorf("a second run: %v", err)
	}
}

// awaitRegistered waits until a worker has said that it is there, and returns its lease.
func awaitRegistered(t *testing.T, cl *clientv3.Client, root string) clientv3.LeaseID {
	t.Helper()
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	workers := root + "queues/q/workers/"
	there, err := cl.Get(ctx, workers, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	if len(there.Kvs) > 0 {
		return clientv3.LeaseID(there.Kvs[0].Lease)
	}
	for resp := range cl.Watch(ctx, workers, clientv3.WithPrefix(), clientv3.WithRev(there.Header.Revision+1), clientv3.WithFilterDelete()) {
		if len(resp.Events) > 0 {
			return clientv3.LeaseID(resp.Events[0].Kv.Lease)
		}
	}
	t.Fatal("no worker is registered")
	return 0
}
