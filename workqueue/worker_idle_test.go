package workqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/workqueue"
)

// An idle worker sends its renewals, at most one watch progress request per Quiet and
// mirror, and one list per prefix and scan period: nothing else.
func TestIdleWorkerIsQuiet(t *testing.T) {
	t.Parallel()
	const quiet, renewEvery = 500 * time.Millisecond, time.Second
	c := etcdtest.New(t, etcdtest.Config{})
	var rec etcdtest.Recorder
	root := etcdtest.Root(t)
	q := openAt(t, c.Client(t, rec.DialOptions()...), workqueue.Config{
		Root: root, Quiet: quiet, ScanEvery: time.Hour,
	})
	started := make(chan struct{}, 8)
	run(t, q, workqueue.WorkerConfig{SessionTTL: 4 * renewEvery}, func(context.Context, *workqueue.Claim) ([]byte, error) {
		started <- struct{}{}
		return nil, nil
	})
	others := openAt(t, c.Client(t), workqueue.Config{Root: root})
	enqueue(t, others, workqueue.Params{ID: "first"})
	wait(t, others, "first")
	receive(t, started, "the worker serves")

	rec.Reset()
	began := time.Now()
	// Renewals are the clock: nothing else is expected to happen.
	if err := rec.WaitAnswered(bounded(t), "LeaseKeepAlive", 4); err != nil {
		t.Fatal(err)
	}
	idle := time.Since(began)
	for name, n := range rec.Counts() {
		switch name {
		case "LeaseKeepAlive":
			if limit := int(idle/renewEvery) + 2; n > limit {
				t.Errorf("%d renewals in %v, want at most %d", n, idle, limit)
			}
		case "Watch.progress":
			if limit := int(idle/quiet) + 1; n > limit {
				t.Errorf("%d progress requests in %v, want at most %d", n, idle, limit)
			}
		default:
			t.Errorf("an idle worker sent %d of %s", n, name)
		}
	}

	// It is woken by the watch: scans are an hour apart.
	rec.Reset()
	enqueue(t, others, workqueue.Params{ID: "second"})
	receive(t, started, "the job is picked up")
	wait(t, others, "second")
	if counts := rec.Counts(); counts["Range"]+counts["RangeStream.open"] > 0 {
		t.Errorf("the pick-up read: %v", counts)
	}
}

// Scans come once per period and prefix.
func TestIdleWorkerScans(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, etcdtest.Config{})
	var rec etcdtest.Recorder
	q := openAt(t, c.Client(t, rec.DialOptions()...), workqueue.Config{
		Root: etcdtest.Root(t), Quiet: time.Minute, ScanEvery: time.Second,
	})
	run(t, q, workqueue.WorkerConfig{SessionTTL: 4 * time.Second}, func(context.Context, *workqueue.Claim) ([]byte, error) { return nil, nil })
	enqueue(t, q, workqueue.Params{ID: "j"})
	wait(t, q, "j")
	rec.Reset()
	began := time.Now()
	if err := rec.WaitAnswered(bounded(t), "LeaseKeepAlive", 3); err != nil {
		t.Fatal(err)
	}
	counts, idle := rec.Counts(), time.Since(began)
	lists := counts["Range"] + counts["RangeStream.open"]
	if limit := 4 * (int(idle/(800*time.Millisecond)) + 1); lists == 0 || lists > limit {
		t.Errorf("%d lists of 4 prefixes in %v, want at most %d: %v", lists, idle, limit, counts)
	}
}
