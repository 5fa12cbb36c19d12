package workqueue_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/workqueue"
)

// eventMeter counts the watch events that etcd delivers to clients.
type eventMeter struct{ n atomic.Int64 }

func (m *eventMeter) option() grpc.DialOption {
	return grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := open(ctx, desc, cc, method, opts...)
		if err != nil {
			return nil, err
		}
		return &meteredStream{s, m}, nil
	})
}

type meteredStream struct {
	grpc.ClientStream
	m *eventMeter
}

func (s *meteredStream) RecvMsg(msg any) error {
	err := s.ClientStream.RecvMsg(msg)
	if resp, ok := msg.(*pb.WatchResponse); ok && err == nil {
		s.m.n.Add(int64(len(resp.Events)))
	}
	return err
}

// crew is idle workers on one queue, each with a session and watches of its own, and
// a dispatcher.
type crew struct {
	q     *workqueue.Queue // what the test itself enqueues and waits with: not metered
	meter eventMeter
}

func newCrew(t testing.TB, c *etcdtest.Cluster, mode string, workers int) *crew {
	t.Helper()
	root := etcdtest.Root(t)
	cr := &crew{q: openAt(t, c.Client(t), workqueue.Config{Root: root})}
	setMode(t, cr.q, mode)
	clients := make([]*clientv3.Client, 4) // a process each, nearly
	for i := range clients {
		clients[i] = c.Client(t, cr.meter.option())
	}
	for i := range workers {
		run(t, openAt(t, clients[i%4], workqueue.Config{Root: root}), workqueue.WorkerConfig{Concurrency: 1, SessionTTL: time.Minute}, counting(&tally{}))
	}
	if mode == "dispatch" {
		dispatch(t, clients[0], root, workqueue.DispatcherConfig{TTL: time.Minute})
	}
	cl := c.Client(t)
	until(t, cl, root, "all workers are registered", func() bool {
		resp, err := cl.Get(bounded(t), keysOf(t, root).Workers(), clientv3.WithPrefix(), clientv3.WithCountOnly())
		return err == nil && resp.Count == int64(workers)
	})
	cr.work(t, 2*workers) // until all watches are up
	return cr
}

// work has n jobs done, one after another.
func (cr *crew) work(t testing.TB, n int) {
	t.Helper()
	for range n {
		wait(t, cr.q, enqueue(t, cr.q, workqueue.Params{})[0].ID)
	}
}

// events has n jobs done and returns how many events came for each.
func (cr *crew) events(t testing.TB, n int) float64 {
	t.Helper()
	before := cr.meter.n.Load()
	cr.work(t, n)
	return float64(cr.meter.n.Load()-before) / float64(n)
}

// In mode dispatch a job costs as many events with many workers as with few: five,
// three of them the dispatcher's. In mode claim each worker gets them all.
func TestFanoutDoesNotGrowInModeDispatch(t *testing.T) {
	t.Parallel()
	const jobs = 40
	c := etcdtest.Shared(t)
	few, many := newCrew(t, c, "dispatch", 3).events(t, jobs), newCrew(t, c, "dispatch", 24).events(t, jobs)
	claim := newCrew(t, c, "claim", 24).events(t, jobs)
	t.Logf("events per job: %.1f with 3 workers, %.1f with 24, %.1f with 24 in mode claim", few, many, claim)
	if few > 7 || many > 7 {
		t.Errorf("a job costs %.1f events with 3 workers and %.1f with 24, want 5", few, many)
	}
	if claim < 2*24 {
		t.Errorf("in mode claim a job costs %.1f events: the meter is wrong", claim)
	}
}

// BenchmarkFanout reports how many watch events etcd delivers per job to idle workers
// on one queue, one session each.
func BenchmarkFanout(b *testing.B) {
	for _, workers := range []int{10, 50, 200} {
		for _, mode := range []string{"claim", "dispatch"} {
			b.Run(fmt.Sprintf("%s/%d", mode, workers), func(b *testing.B) {
				cr := newCrew(b, etcdtest.Shared(b), mode, workers)
				before := cr.meter.n.Load()
				for b.Loop() {
					cr.work(b, 1)
				}
				b.ReportMetric(float64(cr.meter.n.Load()-before)/float64(b.N), "events/job")
			})
		}
	}
}
