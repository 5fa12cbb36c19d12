package workqueue_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/inside"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/workqueue"
)

// memberOn runs a member until t's cleanup.
func memberOn(t *testing.T, cl *clientv3.Client, root string) *coord.SessionKeeper {
	t.Helper()
	m := coord.NewSessionKeeper(cl, coord.SessionConfig{Root: root, TTL: 20 * time.Second})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return m
}

// hears blocks until the worker on that member hears that the job is assigned to it.
func hears(t *testing.T, cl *clientv3.Client, root string, m *coord.SessionKeeper, id string) {
	t.Helper()
	s, err := m.Session(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	until(t, cl, root, "the worker hears of "+id, func() bool {
		resp, err := cl.Get(bounded(t), keysOf(t, root).Assigned(s.ID(), id))
		if err != nil {
			t.Fatal(err)
		}
		return len(resp.Kvs) == 1 && inside.Of(s).Book().Has(keyspace.NonceOf(resp.Kvs[0].Value))
	})
}

// A worker that has just read that its inbox is empty, since the mode is claim, leaves
// nothing there that it hears of before it has that answer: mode dispatch may be back by
// then.
func TestNothingStaysInAnInboxThatIsLeft(t *testing.T) {
	t.Parallel()
	c, root := etcdtest.Shared(t), etcdtest.Root(t)
	var armed atomic.Bool
	held, release := make(chan struct{}), make(chan struct{})
	hold := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		err := invoke(ctx, method, req, reply, cc, opts...)
		if r, ok := req.(*pb.RangeRequest); ok && strings.Contains(string(r.Key), "/assigned/") && armed.CompareAndSwap(true, false) {
			close(held)
			<-release // or else its time is over, which is no answer either
		}
		return err
	}
	cl := c.Client(t, grpc.WithChainUnaryInterceptor(hold))
	q := dispatchQueue(t, c.Client(t), root)
	dispatch(t, c.Client(t), root, workqueue.DispatcherConfig{})
	member := memberOn(t, cl, root)
	run(t, openAt(t, cl, workqueue.Config{Root: root}), workqueue.WorkerConfig{SessionKeeper: member}, counting(&tally{}))
	enqueue(t, q, workqueue.Params{ID: "first"})
	wait(t, q, "first")

	armed.Store(true)
	setMode(t, q, "claim")
	receive(t, held, "the worker reads its inbox once more")
	setMode(t, q, "dispatch")
	enqueue(t, q, workqueue.Params{ID: "second"})
	hears(t, c.Client(t), root, member, "second")
	close(release)
	if j := wait(t, q, "second"); trail(j) != "completed" {
		t.Errorf("it is %s after %q", j.State, trail(j))
	}
}

// A job that is assigned to a worker whose own claim of it was refused, since the mode
// changed, is begun as soon as that answer is there. Nothing of it hangs, so it is not
// given back.
func TestAnAssignmentWaitsForTheRefusalOfAClaim(t *testing.T) {
	t.Parallel()
	c, root := etcdtest.Shared(t), etcdtest.Root(t)
	g := newGate()
	defer g.open()
	cl := c.Client(t)
	q := openAt(t, cl, workqueue.Config{Root: root})
	gated := c.Client(t, g.option())
	member := memberOn(t, gated, root)
	run(t, openAt(t, gated, workqueue.Config{Root: root}), workqueue.WorkerConfig{SessionKeeper: member}, counting(&tally{}))
	awaitRegistered(t, cl, root)
	dispatch(t, cl, root, workqueue.DispatcherConfig{})
	g.close()
	enqueue(t, q, workqueue.Params{ID: "x"})
	receive(t, g.caught, "the claim is sent")
	setMode(t, q, "dispatch")
	hears(t, cl, root, member, "x")
	g.open()
	if j := wait(t, q, "x"); trail(j) != "completed" {
		t.Errorf("it is %s after %q", j.State, trail(j))
	}
}

// A worker that was cut off while the mode was dispatch, and hears of it when it is claim
// again, works what was assigned to it meanwhile.
func TestAModeThatPassedUnseenLeavesNothing(t *testing.T) {
	t.Parallel()
	c, root := etcdtest.New(t, etcdtest.Config{Proxies: true}), etcdtest.Root(t)
	cl := c.Client(t)
	q := openAt(t, cl, workqueue.Config{Root: root})
	run(t, openAt(t, c.ProxiedClient(t), workqueue.Config{Root: root}), workqueue.WorkerConfig{SessionTTL: 60 * time.Second}, counting(&tally{}))
	awaitRegistered(t, cl, root)
	enqueue(t, q, workqueue.Params{ID: "first"})
	wait(t, q, "first") // it is in the mode claim
	dispatch(t, cl, root, workqueue.DispatcherConfig{})
	c.Proxy(0).Refuse()
	c.Proxy(0).Drop()
	setMode(t, q, "dispatch")
	enqueue(t, q, workqueue.Params{ID: "second"})
	assigned(t, cl, root, 1)
	setMode(t, q, "claim")
	c.Proxy(0).Heal()
	if j := wait(t, q, "second"); trail(j) != "completed" {
		t.Errorf("it is %s after %q", j.State, trail(j))
	}
}
