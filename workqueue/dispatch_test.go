package workqueue_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/election"
	"github.com/leasekit/leasekit/workqueue"
)

var tester = workqueue.By{Actor: "test"}

func setMode(t testing.TB, q *workqueue.Queue, mode string) {
	t.Helper()
	if err := q.SetMode(bounded(t), mode, tester); err != nil {
		t.Fatal(err)
	}
}

// dispatchQueue opens a queue in mode dispatch.
func dispatchQueue(t testing.TB, cl *clientv3.Client, root string) *workqueue.Queue {
	t.Helper()
	q := openAt(t, cl, workqueue.Config{Root: root})
	setMode(t, q, "dispatch")
	return q
}

// dispatcher is one under way.
type dispatcher struct {
	*workqueue.Dispatcher
	cancel context.CancelFunc
	done   chan struct{}
}

func (d *dispatcher) stop() {
	d.cancel()
	<-d.done
}

// dispatch starts a dispatcher with a handle of its own; it is stopped in t's cleanup
// at the latest.
func dispatch(t testing.TB, cl *clientv3.Client, root string, cfg workqueue.DispatcherConfig) *dispatcher {
	t.Helper()
	if cfg.TTL == 0 {
		cfg.TTL = outlasts
	}
	d, err := workqueue.NewDispatcher(openAt(t, cl, workqueue.Config{Root: root}), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &dispatcher{Dispatcher: d, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		if err := d.Run(ctx); err != nil {
			t.Errorf("dispatcher: %v", err)
		}
	}()
	t.Cleanup(r.stop)
	return r
}

// leads blocks until one of the dispatchers leads, and returns it.
func leads(t testing.TB, cl *clientv3.Client, root string, ds ...*dispatcher) *dispatcher {
	t.Helper()
	var who *dispatcher
	until(t, cl, root, "one of the dispatchers leads", func() bool {
		i := slices.IndexFunc(ds, func(d *dispatcher) bool { return d.Elector().Term() != nil })
		if i >= 0 {
			who = ds[i]
		}
		return who != nil
	})
	return who
}

// inboxes counts the entries in all inboxes.
func inboxes(t testing.TB, cl *clientv3.Client, root string) int {
	t.Helper()
	resp, err := cl.Get(bounded(t), keysOf(t, root).Prefix()+"assigned/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		t.Fatal(err)
	}
	return int(resp.Count)
}

// ranOnce checks that jobs j0 ... are done by their first attempt, each by one run,
// and that nothing is left in an inbox.
func ranOnce(t testing.TB, cl *clientv3.Client, root string, q *workqueue.Queue, runs *tally, jobs int) {
	t.Helper()
	for i := range jobs {
		j := wait(t, q, "j"+itoa(i))
		if j.State != workqueue.StateDone || trail(j) != "completed" || runs.get(j.ID) != 1 {
			t.Errorf("%s is %s after %q and %d runs", j.ID, j.State, trail(j), runs.get(j.ID))
		}
	}
	if n := inboxes(t, cl, root); n != 0 {
		t.Errorf("%d entries are left in inboxes", n)
	}
}

func counting(runs *tally) workqueue.HandlerFunc {
	return func(_ context.Context, c *workqueue.Claim) ([]byte, error) {
		runs.add(c.Job().ID)
		return c.Job().Payload, nil
	}
}

// 20 workers share 200 jobs, small ones and such whose payload lies beside.
func TestDispatchGivesEachJobToOneWorker(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := dispatchQueue(t, cl, root)
	const jobs, workers = 200, 20
	runs := &tally{}
	for i := range workers {
		run(t, openAt(t, cl, workqueue.Config{Root: root}), workqueue.WorkerConfig{SessionTTL: outlasts, Concurrency: 2, StandForDispatcher: i < 2}, counting(runs))
	}
	items := numbered(jobs, workqueue.Params{})
	for i := range items {
		items[i].Payload = make([]byte, i*20)
	}
	enqueue(t, q, items...)
	ranOnce(t, cl, root, q, runs, jobs)
	for i := range jobs {
		if j := get(t, q, "j"+itoa(i)); len(j.Result) != i*20 {
			t.Errorf("%s got %d bytes of payload, want %d", j.ID, len(j.Result), i*20)
		}
	}
}

// The mode changes again and again under load: no job runs twice, and none is lost.
func TestModeSwitchesUnderLoad(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := openAt(t, cl, workqueue.Config{Root: root})
	const jobs, switches = 240, 12
	runs := &tally{}
	for range 3 {
		run(t, openAt(t, cl, workqueue.Config{Root: root}), workqueue.WorkerConfig{Concurrency: 3, SessionTTL: outlasts, StandForDispatcher: true}, counting(runs))
	}
	items := numbered(jobs, workqueue.Params{})
	for i := range switches {
		setMode(t, q, []string{"dispatch", "claim"}[i%2])
		part := items[i*jobs/switches : (i+1)*jobs/switches]
		enqueue(t, q, part...)
		wait(t, q, part[0].ID) // that mode was at work, the next comes in the middle
	}
	ranOnce(t, cl, root, q, runs, jobs)
}

// A job that was claimed before a switch is still its worker's to hear of: a cancel
// reaches its handler, in either direction.
func TestCancelReachesHandlersAcrossModeSwitches(t *testing.T) {
	for _, modes := range [][2]string{{"claim", "dispatch"}, {"dispatch", "claim"}} {
		t.Run(modes[0], func(t *testing.T) {
			t.Parallel()
			cl, root := shared(t)
			q := openAt(t, cl, workqueue.Config{Root: root})
			setMode(t, q, modes[0])
			started, causes := make(chan string, 9), make(chan error, 9)
			run(t, openAt(t, cl, workqueue.Config{Root: root}), workqueue.WorkerConfig{Concurrency: 2, SessionTTL: outlasts, StandForDispatcher: true},
				func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
					started <- c.Job().ID
					if c.Job().ID == "long" {
						<-ctx.Done()
						causes <- context.Cause(ctx)
						return nil, ctx.Err()
					}
					return nil, nil
				})
			enqueue(t, q, workqueue.Params{ID: "long"})
			receive(t, started, "the long job starts")
			setMode(t, q, modes[1])
			if modes[1] == "dispatch" { // the other way the worker works its inbox off first
				enqueue(t, q, workqueue.Params{ID: "next"})
				wait(t, q, "next")
			}
			if _, err := q.Cancel(bounded(t), "long", tester); err != nil {
				t.Fatal(err)
			}
			if got := receive(t, causes, "the handler hears of the cancel"); !errors.Is(got, workqueue.ErrCancelled) {
				t.Errorf("got cause %v", got)
			}
			enqueue(t, q, workqueue.Params{ID: "last"})
			wait(t, q, "last")
		})
	}
}

// While a queue is paused nothing is assigned, and it goes on when it is resumed.
func TestPauseInModeDispatch(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := dispatchQueue(t, cl, root)
	runs := &tally{}
	run(t, openAt(t, cl, workqueue.Config{Root: root}), workqueue.WorkerConfig{Concurrency: 2, StandForDispatcher: true}, counting(runs))
	enqueue(t, q, workqueue.Params{ID: "before"})
	wait(t, q, "before")
	if err := q.Pause(bounded(t), tester); err != nil {
		t.Fatal(err)
	}
	enqueue(t, q, numbered(20, workqueue.Params{})...)
	// Any assignment that was under way when Pause returned is refused.
	if n := inboxes(t, cl, root); n != 0 || len(runs.n) > 1 {
		t.Errorf("%d jobs are assigned in a paused queue, and %d ran", n, len(runs.n)-1)
	}
	if err := q.Resume(bounded(t), tester); err != nil {
		t.Fatal(err)
	}
	ranOnce(t, cl, root, q, runs, 20)
}

// Kinds are respected, and one that no worker knows holds nothing up.
func TestDispatchByKind(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := dispatchQueue(t, cl, root)
	dispatch(t, cl, root, workqueue.DispatcherConfig{})
	for _, kind := range []string{"a", "b"} {
		mux := workqueue.NewMux()
		mux.Register(kind, workqueue.HandlerFunc(func(_ context.Context, c *workqueue.Claim) ([]byte, error) {
			if c.Job().Kind != kind {
				t.Errorf("%s went to a worker of kind %s", c.Job().ID, kind)
			}
			return nil, nil
		}))
		runHandler(t, openAt(t, cl, workqueue.Config{Root: root}), workqueue.WorkerConfig{Concurrency: 1}, mux)
	}
	var items []workqueue.Params
	for i := range 300 {
		items = append(items, workqueue.Params{ID: "u" + itoa(i), Kind: "unknown", Priority: 1})
	}
	for i := range 20 {
		items = append(items, workqueue.Params{ID: "j" + itoa(i), Kind: []string{"a", "b"}[i%2]})
	}
	enqueue(t, q, items...)
	for i := range 20 {
		wait(t, q, "j"+itoa(i))
	}
}

// Higher priorities are handed out first.
func TestDispatchByPriority(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := dispatchQueue(t, cl, root)
	enqueue(t, q, workqueue.Params{ID: "low", Priority: -1}, workqueue.Params{ID: "middle"}, workqueue.Params{ID: "high", Priority: 1})
	order := make(chan string, 9)
	run(t, openAt(t, cl, workqueue.Config{Root: root}), workqueue.WorkerConfig{Concurrency: 1, StandForDispatcher: true}, func(_ context.Context, c *workqueue.Claim) ([]byte, error) {
		order <- c.Job().ID
		return nil, nil
	})
	for _, want := range []string{"high", "middle", "low"} {
		if got := receive(t, order, "the next job"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// A scheduled job is assigned when its time has come, without anything else
// happening.
func TestDispatchOfScheduledJobs(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := dispatchQueue(t, cl, root)
	run(t, openAt(t, cl, workqueue.Config{Root: root}), workqueue.WorkerConfig{Concurrency: 1, StandForDispatcher: true}, counting(&tally{}))
	enqueue(t, q, workqueue.Params{ID: "now"})
	wait(t, q, "now")
	at := time.Now().Add(time.Second)
	enqueue(t, q, workqueue.Params{ID: "later", RunAt: at})
	if j := wait(t, q, "later"); j.FinishedAt.Before(at) {
		t.Errorf("it ran %v too early", at.Sub(j.FinishedAt))
	}
}

// WaitEmpty works in mode dispatch too, and records that nobody can read do not
// keep it.
func TestWaitEmptyInModeDispatch(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := dispatchQueue(t, cl, root)
	for i := range 40 {
		if _, err := cl.Put(bounded(t), keysOf(t, root).Job("bad"+itoa(i)), "{"); err != nil {
			t.Fatal(err)
		}
	}
	worker := openAt(t, cl, workqueue.Config{Root: root})
	run(t, worker, workqueue.WorkerConfig{StandForDispatcher: true}, counting(&tally{}))
	enqueue(t, q, numbered(5, workqueue.Params{})...)
	if err := q.WaitEmpty(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if s, err := admin.Count(bounded(t), q); err != nil || s.Jobs[workqueue.StateDone] != 5 || s.Mode != "dispatch" || s.Workers != 1 {
		t.Errorf("got %+v, %v", s, err)
	}
}

// Two dispatchers stand for the same queue, in one process or in two: the standby
// takes over at once when the leader stops.
func TestDispatcherHandsOver(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := dispatchQueue(t, cl, root)
	runs := &tally{}
	run(t, openAt(t, cl, workqueue.Config{Root: root}), workqueue.WorkerConfig{Concurrency: 2}, counting(runs))
	a := dispatch(t, cl, root, workqueue.DispatcherConfig{TTL: time.Minute})
	leads(t, cl, root, a)
	b := dispatch(t, cl, root, workqueue.DispatcherConfig{TTL: time.Minute})
	standby(t, cl, root, a.Elector())
	began := time.Now()
	a.stop()
	enqueue(t, q, numbered(1, workqueue.Params{})...)
	ranOnce(t, cl, root, q, runs, 1)
	t.Logf("done %v after the leader was told to stop", time.Since(began))
	if leads(t, cl, root, b); time.Since(began) > 20*time.Second { // the TTL is a minute
		t.Errorf("the standby waited for %v", time.Since(began))
	}
}

// A dispatcher's configuration is checked.
func TestDispatcherValidates(t *testing.T) {
	cl, root := shared(t)
	q := openAt(t, cl, workqueue.Config{Root: root})
	for _, cfg := range []workqueue.DispatcherConfig{{TTL: time.Millisecond}, {Prefetch: -1}, {Prefetch: 1 << 20}, {Identity: "\x00"}} {
		if _, err := workqueue.NewDispatcher(q, cfg); !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("%+v: got %v", cfg, err)
		}
	}
	if _, err := workqueue.NewDispatcher(nil, workqueue.DispatcherConfig{}); !errors.Is(err, coord.ErrInvalid) {
		t.Errorf("without a queue: got %v", err)
	}
	if err := q.SetMode(bounded(t), "push", tester); !errors.Is(err, coord.ErrInvalid) {
		t.Errorf("mode push: got %v", err)
	}
	d, err := workqueue.NewDispatcher(q, workqueue.DispatcherConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if d.NeedLeaderElection() {
		t.Error("it has an election of its own")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := d.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	o, err := election.New(cl, election.Config{Name: q.DispatcherElection(), Root: root})
	if err != nil {
		t.Fatal(err)
	}
	for s := range o.Observe(ctx) {
		if s.Status == election.Leader {
			cancel()
		}
	}
	wg.Wait()
}
