package workqueue_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/workqueue"
)

// A handler does not wait for the result of the one before it to arrive, but for that
// of the one before that: results that etcd does not take do not pile up.
func TestWorkerRunsTheNextJobWhileAResultIsOnItsWay(t *testing.T) {
	const retention = 4321 * time.Second
	arrives := make(chan struct{})
	c, root := etcdtest.Shared(t), etcdtest.Root(t)
	held := grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if grant, ok := req.(*pb.LeaseGrantRequest); ok && grant.TTL >= int64(retention.Seconds()) {
			select {
			case <-arrives: // no result can be handed in without a retention lease
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	})
	q := openAt(t, c.Client(t, held), workqueue.Config{Root: root, Retention: retention})
	for range 3 {
		if _, err := q.Enqueue(bounded(t), workqueue.Params{}); err != nil {
			t.Fatal(err)
		}
	}
	var arrived atomic.Bool
	release := sync.OnceFunc(func() { arrived.Store(true); close(arrives) })
	defer release()
	ran := make(chan bool, 3)
	run(t, q, workqueue.WorkerConfig{Concurrency: 1}, func(context.Context, *workqueue.Claim) ([]byte, error) {
		ran <- arrived.Load()
		return nil, nil
	})
	next := func() bool { return receive(t, ran, "a handler runs") }
	for range 2 {
		if next() {
			t.Error("a result arrived by itself")
		}
	}
	// The third would run within moments, had it not to wait.
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := q.WaitEmpty(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("waiting for jobs without results: %v", err)
	}
	release()
	if !next() {
		t.Error("a third handler ran while two results of a worker of one slot were on their way")
	}
	if err := q.WaitEmpty(bounded(t)); err != nil {
		t.Error(err)
	}
}
