package workqueue_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/workqueue"
)

// once reports every job that was not claimed exactly once.
func once(t *testing.T, claims *tally, jobs int) {
	t.Helper()
	total := 0
	for id, n := range claims.n {
		total++
		if n != 1 {
			t.Errorf("job %s was claimed %d times", id, n)
		}
	}
	if total != jobs {
		t.Errorf("%d jobs were claimed, want %d", total, jobs)
	}
}

func TestClaimersRace(t *testing.T) {
	t.Parallel()
	const claimers, jobs = 20, 200
	cl, root := shared(t)
	enqueue(t, openAt(t, cl, workqueue.Config{Root: root}), numbered(jobs, workqueue.Params{})...)
	claims := &tally{}
	var wg sync.WaitGroup
	for range claimers {
		mine := etcdtest.Shared(t).Client(t)
		q, s := openAt(t, mine, workqueue.Config{Root: root}), session(t, mine, root)
		wg.Go(func() {
			for {
				c, err := q.Claim(bounded(t), s)
				if errors.Is(err, workqueue.ErrEmpty) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				claims.add(c.Job().ID)
				if err := c.Complete(bounded(t), nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	once(t, claims, jobs)
}

func TestWorkersRace(t *testing.T) {
	t.Parallel()
	const workers, jobs = 20, 200
	cl, root := shared(t)
	q := openAt(t, cl, workqueue.Config{Root: root})
	enqueue(t, q, numbered(jobs, workqueue.Params{})...)
	claims := &tally{}
	for range workers {
		mine := openAt(t, etcdtest.Shared(t).Client(t), workqueue.Config{Root: root})
		run(t, mine, workqueue.WorkerConfig{Concurrency: 4}, func(_ context.Context, c *workqueue.Claim) ([]byte, error) {
			claims.add(c.Job().ID)
			return nil, nil
		})
	}
	if err := q.WaitEmpty(bounded(t)); err != nil {
		t.Fatal(err)
	}
	once(t, claims, jobs)
}

// Many workers at one long queue leave each other's jobs alone: TestSurvives_42.
// It runs alone: fifty mirrors leave nothing for others.
func TestSurvives_42_Contention(t *testing.T) {
	const workers, jobs, enough = 50, 1000, 200
	c := etcdtest.New(t, etcdtest.Config{})
	cl, root := c.Client(t), etcdtest.Root(t)
	enqueue(t, openAt(t, cl, workqueue.Config{Root: root}), numbered(jobs, workqueue.Params{})...)
	counts := &tally{}
	full := make(chan struct{})
	for range workers {
		run(t, openAt(t, cl, workqueue.Config{Root: root}), workqueue.WorkerConfig{
			Concurrency: 1,
			Hooks:       workqueue.Hooks{Missed: func() { counts.add("missed") }},
		}, func(context.Context, *workqueue.Claim) ([]byte, error) {
			if counts.add("claimed") == enough {
				close(full)
			}
			return nil, nil
		})
	}
	receive(t, full, "enough jobs are claimed")
	claimed, missed := counts.get("claimed"), counts.get("missed")
	t.Logf("%d claims, %d lost races", claimed, missed)
	if missed >= 2*claimed {
		t.Errorf("%d races were lost for %d claims", missed, claimed)
	}
}
