package leasectl

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
	"github.com/leasekit/leasekit/workqueue"
)

// A healthy system under load is reported as such: jobs are enqueued, claimed, dispatched, checkpointed, fail, are
// retried and cancelled; workers come and go; a session is lost; locks are handed on.
func TestDoctorIsQuietUnderLoad(t *testing.T) {
	t.Parallel()
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true})
	r := newDoctorRig(t, etcd.Endpoints())
	ctx, stop := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	t.Cleanup(func() { stop(); wait.Wait() })
	start := func(f func(context.Context) error) {
		wait.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
	}

	claimed, dispatched := r.open("claimed"), r.open("dispatched")
	if err := dispatched.SetMode(t.Context(), "dispatch", workqueue.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	d, err := workqueue.NewDispatcher(dispatched, workqueue.DispatcherConfig{TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	start(d.Run)
	for _, q := range []*workqueue.Queue{claimed, dispatched} {
		start(func(ctx context.Context) error { return workAll(ctx, r, q, 8) })
		start(func(ctx context.Context) error { return joinAndLeave(ctx, r, q) })
		start(func(ctx context.Context) error { return enqueueAndCancel(ctx, q) })
	}
	for i := range 2 {
		lock := coord.NewLock(r.openSession(fmt.Sprint("locker-", i)), "l")
		start(func(ctx context.Context) error { return handOn(ctx, lock) })
	}
	if _, err := r.client.Put(t.Context(), "/elsewhere", "x"); err != nil {
		t.Fatal(err)
	}

	runs := 0
	for end := time.Now().Add(12 * time.Second); time.Now().Before(end) || runs < 5; runs++ {
		out, errOut, code := r.leasectl("doctor", "--window", "2s")
		if code != 0 || !hasInOrder(out, []string{"no problems found"}) {
			t.Errorf("run %d: exit code %d\n%s%s", runs, code, out, errOut)
		}
		if runs == 3 {
			r.loseASession()
		}
	}
	t.Log(runs, "runs")
}

// workAll runs one worker, whose jobs do all that jobs can do.
func workAll(ctx context.Context, r *doctorRig, q *workqueue.Queue, concurrency int) error {
	w, err := workqueue.NewWorker(q, workqueue.HandlerFunc(func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
		switch rand.IntN(8) {
		case 0:
			return nil, workqueue.RetryAfter(50*time.Millisecond, errors.New("passing trouble"))
		case 1:
			return nil, workqueue.Permanent(errors.New("no use"))
		case 2:
			return nil, workqueue.Snooze(50 * time.Millisecond)
		case 3, 4:
			if err := c.Checkpoint(ctx, []byte(`{"half":true}`)); err != nil {
				return nil, err
			}
		}
		return []byte(`"done"`), pauseFor(ctx, time.Duration(rand.IntN(20))*time.Millisecond)
	}), workqueue.WorkerConfig{Concurrency: concurrency, SessionTTL: time.Minute})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// joinAndLeave runs a small worker for a while, again and again.
func joinAndLeave(ctx context.Context, r *doctorRig, q *workqueue.Queue) error {
	for ctx.Err() == nil {
		err := func() error {
			ctx, cancel := context.WithTimeout(ctx, 700*time.Millisecond)
			defer cancel()
			if err := workAll(ctx, r, q, 2); err != nil && ctx.Err() == nil {
				return err
			}
			return nil
		}()
		if err != nil {
			return err
		}
	}
	return nil
}

func enqueueAndCancel(ctx context.Context, q *workqueue.Queue) error {
	for i := 0; ctx.Err() == nil; i++ {
		p := workqueue.Params{ID: fmt.Sprint(i % 500), Payload: make([]byte, []int{10, 2000}[i%2]), Priority: i % 3}
		j, err := q.Enqueue(ctx, p)
		if err != nil && !errors.Is(err, workqueue.ErrExists) {
			return err
		}
		if err == nil && i%10 == 0 {
			if _, err := q.Cancel(ctx, j.ID, workqueue.By{Actor: "test"}); err != nil && !errors.Is(err, workqueue.ErrNotFound) &&
				!errors.Is(err, workqueue.ErrNotApplicable) && !errors.Is(err, workqueue.ErrConflict) {
				return err
			}
		}
		if err := pauseFor(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// handOn takes a lock and gives it back, while another one waits for it.
func handOn(ctx context.Context, l *coord.Lock) error {
	for ctx.Err() == nil {
		h, err := l.Acquire(ctx)
		if err != nil {
			return err
		}
		if err := errors.Join(pauseFor(ctx, 5*time.Millisecond), h.Release(context.WithoutCancel(ctx))); err != nil {
			return err
		}
	}
	return nil
}

func pauseFor(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// loseASession ends the session of a worker that has registered.
func (r *doctorRig) loseASession() {
	r.Helper()
	resp, err := r.client.Get(r.Context(), r.queue("claimed").Workers(), clientv3.WithPrefix(), clientv3.WithLimit(1))
	if err != nil || len(resp.Kvs) == 0 {
		r.Fatal("no worker has registered:", err)
	}
	if _, err := r.client.Revoke(r.Context(), clientv3.LeaseID(resp.Kvs[0].Lease)); err != nil {
		r.Fatal(err)
	}
}
