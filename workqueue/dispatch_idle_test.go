package workqueue_test

import (
	"testing"
	"time"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/workqueue"
)

// Idle workers and dispatchers send renewals, and ask quiet watches for a sign of
// life: no reads, no writes. A job is picked up without a read.
func TestIdleInModeDispatch(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, etcdtest.Config{})
	var rec etcdtest.Recorder
	root := etcdtest.Root(t)
	q := dispatchQueue(t, c.Client(t), root)
	cl := c.Client(t, rec.DialOptions()...)
	run(t, openAt(t, cl, workqueue.Config{Root: root}), workqueue.WorkerConfig{SessionTTL: 4 * time.Second}, counting(&tally{}))
	dispatch(t, cl, root, workqueue.DispatcherConfig{TTL: 4 * time.Second})
	enqueue(t, q, workqueue.Params{ID: "first"})
	wait(t, q, "first")
	rec.Reset()
	if err := rec.WaitAnswered(bounded(t), "LeaseKeepAlive", 8); err != nil {
		t.Fatal(err)
	}
	for name, n := range rec.Counts() {
		if name != "LeaseKeepAlive" && name != "Watch.progress" {
			t.Errorf("idle, they sent %d of %s", n, name)
		}
	}
	rec.Reset()
	enqueue(t, q, workqueue.Params{ID: "second"})
	wait(t, q, "second")
	counts := rec.Counts()
	if counts["Range"]+counts["RangeStream.open"] > 0 || counts["Txn"] > 2 {
		t.Errorf("a job cost %v, want one Txn of the dispatcher and one of the worker", counts)
	}
}

// An etcd in trouble meets no hot loop: while it is away a dispatcher with a full
// queue sends little, and it goes on when etcd is back.
func TestDispatcherInTrouble(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, etcdtest.Config{})
	var rec etcdtest.Recorder
	root := etcdtest.Root(t)
	q := dispatchQueue(t, c.Client(t), root)
	runs := &tally{}
	run(t, openAt(t, c.Client(t), workqueue.Config{Root: root}), workqueue.WorkerConfig{SessionTTL: 20 * time.Second, Concurrency: 4}, counting(runs))
	d := dispatch(t, c.Client(t, rec.DialOptions()...), root, workqueue.DispatcherConfig{TTL: 2 * time.Second})
	leads(t, c.Client(t), root, d)
	const jobs = 300
	enqueue(t, q, numbered(jobs, workqueue.Params{MaxLosses: 50})...)
	c.Member(0).Stop()
	rec.Reset()
	began := time.Now()
	if err := rec.Wait(bounded(t), "LeaseGrant", 2); err != nil { // sessions end and are asked for
		t.Fatal(err)
	}
	calls := 0
	for _, n := range rec.Counts() {
		calls += n
	}
	down := time.Since(began)
	t.Logf("%d calls in %v without etcd", calls, down)
	if limit := 100 * (1 + down.Seconds()); float64(calls) > limit {
		t.Errorf("%d calls in %v without etcd: %v", calls, down, rec.Counts())
	}
	if err := c.Member(0).Restart(bounded(t)); err != nil {
		t.Fatal(err)
	}
	for i := range jobs {
		if j := wait(t, q, "j"+itoa(i)); j.State != workqueue.StateDone {
			t.Errorf("%s is %s", j.ID, j.State)
		}
	}
}
