package workqueue_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/workqueue"
)

// BenchmarkPickUp is the time from the begin of an enqueue to the start of the
// handler in an idle worker, which is woken by its watch.
func BenchmarkPickUp(b *testing.B) {
	root := etcdtest.Root(b)
	q, err := workqueue.Open(b.Context(), etcdtest.Shared(b).Client(b), workqueue.Config{Queue: "q", Root: root})
	if err != nil {
		b.Fatal(err)
	}
	defer q.Close()
	begun := make(chan time.Time)
	w, err := workqueue.NewWorker(q, workqueue.HandlerFunc(func(ctx context.Context, _ *workqueue.Claim) ([]byte, error) {
		select {
		case begun <- time.Now():
		case <-ctx.Done():
		}
		return nil, nil
	}), workqueue.WorkerConfig{})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.Run(ctx); err != nil {
			b.Error(err)
		}
	})
	var took []time.Duration
	for range b.N + 1 { // the first waits for the session
		start := time.Now()
		if _, err := q.Enqueue(b.Context(), workqueue.Params{}); err != nil {
			b.Fatal(err)
		}
		took = append(took, (<-begun).Sub(start))
	}
	stop()
	wg.Wait()
	took = slices.Sorted(slices.Values(took[1:]))
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}
