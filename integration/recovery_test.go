package integration_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/integration/faults"
	"github.com/leasekit/leasekit/workqueue"
)

// recovered is how long after what the work went on.
type recovered map[string]time.Duration

// recoveries are the faults after which it is measured how soon work goes on. Each
// event has a queue, and processes, of its own; the cluster goes on to the next event.
var recoveries = []struct {
	name  string
	etcd  func(t testing.TB) *etcdtest.Cluster
	event func(t testing.TB, c *etcdtest.Cluster) recovered
}{
	{"worker-killed", etcdtest.Shared, func(t testing.TB, c *etcdtest.Cluster) recovered { return workerGone(t, c, syscall.SIGKILL) }},
	{"worker-frozen", etcdtest.Shared, func(t testing.TB, c *etcdtest.Cluster) recovered { return workerGone(t, c, syscall.SIGSTOP) }},
	{"leader-member-killed", ownEtcd(3), leaderMemberKilled},
	{"dispatcher-killed", etcdtest.Shared, dispatcherKilled},
	{"etcd-restarted", ownEtcd(1), etcdRestarted},
}

// ownEtcd makes a cluster whose members may be stopped.
func ownEtcd(members int) func(testing.TB) *etcdtest.Cluster {
	return func(t testing.TB) *etcdtest.Cluster { return etcdtest.New(t, etcdtest.Config{Members: members}) }
}

// BenchmarkRecovery reports, for each fault, how soon work goes on: half of the
// events were over by p50, nine of ten by p90. Run it with -benchtime 30x.
func BenchmarkRecovery(b *testing.B) {
	for _, r := range recoveries {
		b.Run(r.name, func(b *testing.B) {
			c := r.etcd(b)
			took := map[string][]time.Duration{}
			for b.Loop() {
				event(b, func(t testing.TB) {
					for from, d := range r.event(t, c) {
						took[from] = append(took[from], d)
					}
				})
			}
			for from, all := range took {
				slices.Sort(all)
				report := func(what string, d time.Duration) {
					b.ReportMetric(float64(d.Microseconds())/1000, what+"-ms-from-"+from)
				}
				report("p50", all[len(all)/2])
				report("p90", all[len(all)*9/10])
				report("max", all[len(all)-1])
			}
		})
	}
}

// Work goes on after each fault. How soon is for the benchmark to say.
func TestRecovery(t *testing.T) {
	for _, r := range recoveries {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			c := r.etcd(t)
			event(t, func(scope testing.TB) { t.Logf("work goes on after %v", r.event(scope, c)) })
		})
	}
}

// event runs f as a test of its own would be: what it cleans up is gone behind it, not
// only behind all events.
func event(t testing.TB, f func(t testing.TB)) {
	s := &scope{TB: t}
	defer func() {
		for _, clean := range slices.Backward(s.cleanups) {
			clean()
		}
	}()
	f(s)
}

// scope is a test within a test.
type scope struct {
	testing.TB
	cleanups []func()
}

// Cleanup calls f at the end of the event.
func (s *scope) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

// workerGone lets a process take a job, ends or freezes it, and sees another process
// run the job.
func workerGone(t testing.TB, c *etcdtest.Cluster, how syscall.Signal) recovered {
	t.Helper()
	root, cl := etcdtest.Root(t), c.Client(t)
	kill, end := takeover(t, cl, open(t, cl, root), c.Endpoints()[0], root, "2s", "j", how)
	return recovered{"fault": kill, "lease-end": end}
}

// beats are the moments at which completions of a worker were accepted.
type beats struct {
	mu sync.Mutex
	at []time.Time
}

func (b *beats) settled(_ *workqueue.Job, s workqueue.Settlement) {
	if s.Err != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at = append(b.at, time.Now())
}

// latest is the latest beat, zero before the first.
func (b *beats) latest() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.at) == 0 {
		return time.Time{}
	}
	return b.at[len(b.at)-1]
}

// resumed sees one more job through, all of it behind the fault, which began at since,
// and returns the end of the longest time without a completion.
func (b *beats) resumed(t testing.TB, q *workqueue.Queue, since time.Time) time.Time {
	t.Helper()
	behind := time.Now()
	add(t, q, workqueue.Params{ID: "last"})
	if j, err := q.Wait(bounded(t), "last"); err != nil || j.State != workqueue.StateDone {
		t.Fatalf("the last job is %+v, %v", j, err)
	}
	// Whoever waits for a job can hear of its end before its worker does.
	for ctx := bounded(t); b.latest().Before(behind) && wait(ctx, 10*time.Millisecond); {
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var gap time.Duration
	var end time.Time
	for i := 1; i < len(b.at); i++ {
		if d := b.at[i].Sub(b.at[i-1]); b.at[i].After(since) && d > gap {
			gap, end = d, b.at[i]
		}
	}
	if end.IsZero() {
		t.Fatal("nothing was completed behind the fault")
	}
	return end
}

// steady is a queue in which a job is enqueued every 20 ms, whatever became of those
// before it, and completed at once.
func steady(t testing.TB, cl *clientv3.Client) (q *workqueue.Queue, b *beats) {
	t.Helper()
	root := etcdtest.Root(t)
	q, b = open(t, cl, root), &beats{}
	inProcess(t, open(t, cl, root), workqueue.WorkerConfig{Hooks: workqueue.Hooks{Settled: b.settled}}, func() {})
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for wait(ctx, 20*time.Millisecond) {
			wg.Go(func() {
				if _, err := q.Enqueue(ctx, workqueue.Params{}); err != nil && ctx.Err() == nil {
					t.Errorf("enqueue: %v", err)
				}
			})
		}
	})
	t.Cleanup(func() {
		stop()
		wg.Wait()
	})
	for range 5 {
		add(t, q, workqueue.Params{ID: "first"})
		if _, err := q.Wait(bounded(t), "first"); err != nil {
			t.Fatal(err)
		}
	}
	return q, b
}

// inProcess works a queue in this process, with a session that outlives every fault.
func inProcess(t testing.TB, q *workqueue.Queue, cfg workqueue.WorkerConfig, began func()) {
	t.Helper()
	cfg.SessionTTL, cfg.Concurrency = 60*time.Second, 100
	w, err := workqueue.NewWorker(q, workqueue.HandlerFunc(func(context.Context, *workqueue.Claim) ([]byte, error) {
		began()
		return nil, nil
	}), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		stop()
		wg.Wait()
	})
}

// leaderMemberKilled kills the member of three that leads, in the midst of work.
func leaderMemberKilled(t testing.TB, c *etcdtest.Cluster) recovered {
	t.Helper()
	q, b := steady(t, c.Client(t))
	leader := c.Leader(t)
	killed := time.Now()
	leader.Kill()
	defer func() {
		if err := leader.Restart(bounded(t)); err != nil {
			t.Error(err)
		}
	}()
	return recovered{"fault": b.resumed(t, q, killed).Sub(killed)}
}

// etcdRestarted stops all of etcd, cleanly or not, and starts it on its data.
func etcdRestarted(t testing.TB, c *etcdtest.Cluster) recovered {
	t.Helper()
	q, b := steady(t, c.Client(t))
	stopped := time.Now()
	heal, err := faults.Restart{}.Inject(bounded(t), &faults.Env{Cluster: c, Rand: rand.New(rand.NewPCG(rand.Uint64(), 0))})
	if err != nil {
		t.Fatal(err)
	}
	if err := heal(bounded(t)); err != nil {
		t.Fatal(err)
	}
	serving := time.Now()
	end := b.resumed(t, q, stopped)
	return recovered{"fault": end.Sub(stopped), "serving-again": max(end.Sub(serving), 0)}
}

// dispatcherKilled kills the process that dispatches, and sees its standby assign a
// job that was enqueued meanwhile.
func dispatcherKilled(t testing.TB, _ *etcdtest.Cluster) recovered {
	t.Helper()
	o := newOffice(t)
	began := make(chan time.Time, 10)
	inProcess(t, open(t, o.cl, o.root), workqueue.WorkerConfig{}, func() { began <- time.Now() })
	next := func() time.Time {
		select {
		case at := <-began:
			return at
		case <-bounded(t).Done():
			t.Fatal("no job was assigned")
			return time.Time{}
		}
	}
	all := []*process{o.start(t, "dispatch"), o.start(t, "dispatch")}
	_, victim := o.leader(t, "", all...)
	add(t, o.q, workqueue.Params{ID: "before"})
	next()
	for ctx := bounded(t); ; {
		standby, err := o.observer.Candidates(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(standby) > 0 || !wait(ctx, 20*time.Millisecond) {
			break
		}
	}
	ended := sessionEnd(t, o.cl, o.root)
	killed := time.Now()
	victim.signal(t, syscall.SIGKILL)
	add(t, o.q, workqueue.Params{ID: "after"})
	at := next()
	return recovered{"fault": at.Sub(killed), "lease-end": at.Sub(<-ended)}
}
