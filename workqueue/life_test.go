package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/workqueue"
)

// open returns a queue on the shared server under a root of its own.
func open(t *testing.T, cfg workqueue.Config) *workqueue.Queue {
	t.Helper()
	if cfg.Root == "" {
		cfg.Root = etcdtest.Root(t)
	}
	if cfg.Queue == "" {
		cfg.Queue = "q"
	}
	q, err := workqueue.Open(t.Context(), etcdtest.Shared(t).Client(t), cfg)
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

func TestLifeOfAJob(t *testing.T) {
	q := open(t, workqueue.Config{})
	job, err := q.Enqueue(t.Context(), workqueue.Params{Payload: []byte(`{"n":1}`), Kind: "k"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	w, err := workqueue.NewWorker(q, workqueue.HandlerFunc(func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
		return append([]byte("got "), c.Job().Payload...), nil
	}), workqueue.WorkerConfig{SessionTTL: outlasts})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	runCtx, stop := context.WithCancel(ctx)
	wg.Go(func() {
		if err := w.Run(runCtx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	done, err := q.Wait(ctx, job.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(done.Result), `got {"n":1}`; got != want || done.State != workqueue.StateDone {
		t.Errorf("got result %q in state %s, want %q", got, done.State, want)
	}
	stop()
	wg.Wait()
}

func TestWorkersShareJobs(t *testing.T) {
	root := etcdtest.Root(t)
	q := open(t, workqueue.Config{Root: root})
	const jobs = 200
	items := make([]workqueue.Params, jobs)
	for i := range items {
		items[i] = workqueue.Params{ID: fmt.Sprintf("j%d", i), Payload: []byte("x")}
	}
	results, err := q.EnqueueBatch(t.Context(), items)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if _, err := q.Enqueue(t.Context(), workqueue.Params{ID: "j0"}); !errors.Is(err, workqueue.ErrExists) {
		t.Errorf("second enqueue: got %v", err)
	}
	var mu sync.Mutex
	runs := map[string]int{}
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for range 5 {
		w, err := workqueue.NewWorker(open(t, workqueue.Config{Root: root}), workqueue.HandlerFunc(func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			runs[c.Job().ID]++
			return nil, nil
		}), workqueue.WorkerConfig{SessionTTL: outlasts})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			if err := w.Run(ctx); err != nil {
				t.Errorf("run: %v", err)
			}
		})
	}
	waitCtx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := q.WaitEmpty(waitCtx); err != nil {
		t.Error(err)
	}
	stop()
	wg.Wait()
	for id, n := range runs {
		if n != 1 {
			t.Errorf("job %s ran %d times", id, n)
		}
	}
	if len(runs) != jobs {
		t.Errorf("%d jobs ran, want %d", len(runs), jobs)
	}
}

var _ = coord.ErrFenced
