package workqueue_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/workqueue"
)

// keepDone completes n jobs with results of size bytes, one after the other.
func keepDone(t *testing.T, cl *clientv3.Client, root string, q *workqueue.Queue, n, size int) {
	t.Helper()
	s := session(t, cl, root)
	enqueue(t, q, numbered(n, workqueue.Params{})...)
	for range n {
		if err := claim(t, cl, root, q, s).Complete(bounded(t), bytes.Repeat([]byte("x"), size)); err != nil {
			t.Fatal(err)
		}
	}
}

func doneKeys(t *testing.T, cl *clientv3.Client, root string) *clientv3.GetResponse {
	t.Helper()
	resp, err := cl.Get(bounded(t), keysOf(t, root).DoneJobs(), clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// done/ is bounded by number, by bytes and by age; the oldest go first.
func TestRetentionIsBounded(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		cfg  workqueue.Config
		size int
		most int
	}{
		{"jobs", workqueue.Config{RetainJobs: 20}, 1, 20},
		{"bytes", workqueue.Config{RetainBytes: 64 << 10}, 4 << 10, 14},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cl, root := shared(t)
			tc.cfg.Root = root
			q := openAt(t, cl, tc.cfg)
			keepDone(t, cl, root, q, 60, tc.size)
			until(t, cl, root, fmt.Sprintf("at most %d are kept", tc.most), func() bool {
				return len(doneKeys(t, cl, root).Kvs) <= tc.most
			})
			if _, err := q.Get(t.Context(), "j59"); err != nil {
				t.Errorf("the youngest is gone: %v", err)
			}
			if len(doneKeys(t, cl, root).Kvs) < tc.most/4 {
				t.Error("hardly anything is kept")
			}
		})
	}
	t.Run("age", func(t *testing.T) {
		t.Parallel()
		cl, root := shared(t)
		q := openAt(t, cl, workqueue.Config{Root: root, Retention: time.Second})
		keepDone(t, cl, root, q, 5, 1)
		until(t, cl, root, "done jobs expire", func() bool { return len(doneKeys(t, cl, root).Kvs) == 0 })
	})
}

// No lease holds more than 256 keys.
func TestRetentionLeasesRotate(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := openAt(t, cl, workqueue.Config{Root: root})
	const n = 600
	run(t, q, workqueue.WorkerConfig{Concurrency: 64}, func(context.Context, *workqueue.Claim) ([]byte, error) { return nil, nil })
	enqueue(t, q, numbered(n, workqueue.Params{})...)
	if err := q.WaitEmpty(bounded(t)); err != nil {
		t.Fatal(err)
	}
	keys := map[int64]int{}
	for _, kv := range doneKeys(t, cl, root).Kvs {
		keys[kv.Lease]++
	}
	total := 0
	for lease, k := range keys {
		if total += k; k > 256 || lease == 0 {
			t.Errorf("%d keys are on lease %x", k, lease)
		}
	}
	if total != n {
		t.Errorf("%d are kept, want %d", total, n)
	}
}

// A retention lease that is gone costs nobody a result: the unit is built again with
// another.
func TestDeadRetentionLease(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := openAt(t, cl, workqueue.Config{Root: root})
	s := session(t, cl, root)
	enqueue(t, q, numbered(5, workqueue.Params{})...)
	for i := range 5 {
		if err := claim(t, cl, root, q, s).Complete(bounded(t), nil); err != nil {
			t.Fatal(err)
		}
		kvs := doneKeys(t, cl, root).Kvs
		if len(kvs) != 1 {
			t.Fatalf("round %d: %d done jobs, want 1", i, len(kvs))
		}
		if _, err := cl.Revoke(bounded(t), clientv3.LeaseID(kvs[0].Lease)); err != nil {
			t.Fatal(err)
		}
	}
}

// The longest retention is one: a finished job keeps its ID, on a lease that etcd grants.
func TestTheLongestRetentionHolds(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	const century = 100 * 365 * 24 * time.Hour
	q := openAt(t, cl, workqueue.Config{Root: root, Retention: century, RetainJobs: math.MaxInt, RetainBytes: math.MaxInt, Backoff: workqueue.Backoff{Initial: century, Max: century, Jitter: 1}})
	keepDone(t, cl, root, q, 3, 1)
	lease := clientv3.LeaseID(doneKeys(t, cl, root).Kvs[0].Lease)
	ttl, err := cl.TimeToLive(bounded(t), lease)
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Duration(ttl.TTL) * time.Second; left < century || left > century/4*5 {
		t.Errorf("it is kept for %v", left)
	}
	if _, err := q.Enqueue(bounded(t), workqueue.Params{ID: "j0", Dedup: workqueue.UntilRetained}); !errors.Is(err, workqueue.ErrExists) {
		t.Errorf("got %v", err)
	}
	// Nor does the longest pause overflow.
	run(t, q, workqueue.WorkerConfig{Timeout: math.MaxInt64, Grace: math.MaxInt64, DrainTimeout: math.MaxInt64, Limit: math.MaxInt}, func(_ context.Context, c *workqueue.Claim) ([]byte, error) {
		switch c.Job().ID {
		case "snoozes":
			return nil, workqueue.Snooze(math.MaxInt64)
		case "later":
			return nil, workqueue.RetryAfter(math.MaxInt64, errors.New("no"))
		case "before":
			if c.Job().Attempt == 1 {
				return nil, workqueue.Snooze(math.MinInt64)
			}
			return nil, nil
		}
		return nil, errors.New("no")
	})
	enqueue(t, q, workqueue.Params{ID: "fails", Timeout: century}, workqueue.Params{ID: "snoozes"}, workqueue.Params{ID: "later"}, workqueue.Params{ID: "before"})
	for id, want := range map[string]workqueue.State{"fails": workqueue.StateRetry, "later": workqueue.StateRetry, "snoozes": workqueue.StateScheduled, "before": workqueue.StateDone} {
		until(t, cl, root, id+" is "+string(want), func() bool { j := get(t, q, id); return j.State == want && j.Attempt > 0 })
		if j := get(t, q, id); want != workqueue.StateDone && id != "fails" && time.Until(j.RunAt) < century {
			t.Errorf("%s: it runs at %v", id, j.RunAt)
		}
	}
}
