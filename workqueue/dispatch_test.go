package workqueue_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/workqueue"
)

func TestDispatchGivesEachJobToOneWorker(t *testing.T) {
	t.Parallel()
	root := etcdtest.Root(t)
	q := open(t, workqueue.Config{Root: root})
	if err := q.SetMode(t.Context(), "dispatch", workqueue.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	const jobs, workers = 200, 20
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	runCtx, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	var mu sync.Mutex
	runs := map[string]int{}
	for i := range workers {
		w, err := workqueue.NewWorker(open(t, workqueue.Config{Root: root}), workqueue.HandlerFunc(func(_ context.Context, c *workqueue.Claim) ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			runs[c.Job().ID]++
			return c.Job().Payload, nil
		}), workqueue.WorkerConfig{SessionTTL: 5 * time.Second, Concurrency: 2, StandForDispatcher: i < 2})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			if err := w.Run(runCtx); err != nil {
				t.Errorf("run: %v", err)
			}
		})
	}
	items := make([]workqueue.Params, jobs)
	for i := range items {
		items[i] = workqueue.Params{ID: fmt.Sprintf("j%d", i), Payload: make([]byte, i*20)}
	}
	results, err := q.EnqueueBatch(ctx, items)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		done, err := q.Wait(ctx, r.Job.ID)
		if err != nil || done.State != workqueue.StateDone || len(done.Result) != r.Job.PayloadSize {
			t.Fatalf("job %s: %+v, %v", r.Job.ID, done, err)
		}
	}
	stop()
	wg.Wait()
	for id, n := range runs {
		if n != 1 {
			t.Errorf("job %s ran %d times", id, n)
		}
	}
}

func TestModeSwitchesWhileWorkersRun(t *testing.T) {
	t.Parallel()
	root := etcdtest.Root(t)
	q := open(t, workqueue.Config{Root: root})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	runCtx, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	for range 3 {
		w, err := workqueue.NewWorker(open(t, workqueue.Config{Root: root}), workqueue.HandlerFunc(func(context.Context, *workqueue.Claim) ([]byte, error) {
			return nil, nil
		}), workqueue.WorkerConfig{SessionTTL: 5 * time.Second, StandForDispatcher: true})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			if err := w.Run(runCtx); err != nil {
				t.Errorf("run: %v", err)
			}
		})
	}
	for i := range 30 {
		if i%10 == 5 {
			mode := "dispatch"
			if i%20 == 15 {
				mode = "claim"
			}
			if err := q.SetMode(ctx, mode, workqueue.By{Actor: "test"}); err != nil {
				t.Fatal(err)
			}
		}
		job, err := q.Enqueue(ctx, workqueue.Params{})
		if err != nil {
			t.Fatal(err)
		}
		if done, err := q.Wait(ctx, job.ID); err != nil || done.Attempt != 1 {
			t.Fatalf("job %d: %+v, %v", i, done, err)
		}
	}
	stop()
	wg.Wait()
}
