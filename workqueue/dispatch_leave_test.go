package workqueue_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/workqueue"
)

// assigned blocks until n jobs are in inboxes.
func assigned(t testing.TB, cl *clientv3.Client, root string, n int) {
	t.Helper()
	until(t, cl, root, itoa(n)+" jobs are assigned", func() bool { return inboxes(t, cl, root) == n })
}

// A worker that drains gives back at once what it was assigned and has not begun, and
// is given nothing more while its running job takes its time. It still hears of a
// cancel.
func TestDrainGivesBackWhatWasNotBegun(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := dispatchQueue(t, cl, root)
	dispatch(t, cl, root, workqueue.DispatcherConfig{Prefetch: 5})
	member := coord.NewSessionKeeper(cl, coord.SessionConfig{Root: root, TTL: 20 * time.Second}) // it outlives the worker
	memberCtx, stopMember := context.WithCancel(context.Background())
	memberDone := make(chan error, 1)
	go func() { memberDone <- member.Run(memberCtx) }()
	t.Cleanup(func() {
		stopMember()
		if err := <-memberDone; err != nil {
			t.Error(err)
		}
	})
	started, causes := make(chan string, 9), make(chan error, 9)
	w := run(t, openAt(t, cl, workqueue.Config{Root: root}), workqueue.WorkerConfig{Concurrency: 1, SessionKeeper: member, DrainTimeout: patience}, func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
		started <- c.Job().ID
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil, ctx.Err()
	})
	enqueue(t, q, numbered(5, workqueue.Params{})...)
	enqueue(t, q, workqueue.Params{ID: "once", AtMostOnce: true})
	if got := receive(t, started, "the first job runs"); got != "j0" {
		t.Errorf("%s runs first", got)
	}
	assigned(t, cl, root, 6)
	w.cancel()
	// The session lives and has its place in sessions/: only what runs stays with it.
	assigned(t, cl, root, 1)
	runs := &tally{}
	run(t, openAt(t, cl, workqueue.Config{Root: root}), workqueue.WorkerConfig{Concurrency: 1}, counting(runs))
	for _, id := range []string{"j1", "j2", "j3", "j4", "once"} {
		if j := wait(t, q, id); trail(j) != "released completed" || j.State != workqueue.StateDone || j.Losses+j.Failures != 0 {
			t.Errorf("%s is %s after %q", id, j.State, trail(j))
		}
	}
	if _, err := q.Cancel(bounded(t), "j0", tester); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, causes, "the draining worker hears of the cancel"); !errors.Is(got, workqueue.ErrCancelled) {
		t.Errorf("got cause %v", got)
	}
	if err := w.stop(t); err != nil {
		t.Error(err)
	}
	if n := inboxes(t, cl, root); n != 0 {
		t.Errorf("%d entries are left in inboxes", n)
	}
}

// A worker with a limit is given no more than that, whatever the prefetch; what it
// was given too much goes to others while its last job runs.
func TestLimitInModeDispatch(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := dispatchQueue(t, cl, root)
	dispatch(t, cl, root, workqueue.DispatcherConfig{Prefetch: 5})
	started, finish := make(chan string, 9), make(chan struct{})
	once := run(t, openAt(t, cl, workqueue.Config{Root: root}), workqueue.WorkerConfig{Limit: 1}, func(_ context.Context, c *workqueue.Claim) ([]byte, error) {
		started <- c.Job().ID
		<-finish
		return nil, nil
	})
	enqueue(t, q, numbered(10, workqueue.Params{})...)
	receive(t, started, "one job runs")
	assigned(t, cl, root, 1)
	run(t, openAt(t, cl, workqueue.Config{Root: root}), workqueue.WorkerConfig{Concurrency: 1}, counting(&tally{}))
	for i := 1; i < 10; i++ {
		wait(t, q, "j"+itoa(i))
	}
	close(finish)
	receive(t, once.done, "the worker ends")
	if once.err != nil || len(started) != 0 {
		t.Errorf("it returned %v and started %d jobs more", once.err, len(started))
	}
	if j := wait(t, q, "j0"); trail(j) != "completed" || j.Attempt != 1 {
		t.Errorf("j0 is %s after %q", j.State, trail(j))
	}
}

// A handler that hangs takes its slot out of what is assigned to its worker: no job
// waits behind it, and its own job goes to somebody else.
func TestHungHandlerInModeDispatch(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := dispatchQueue(t, cl, root)
	dispatch(t, cl, root, workqueue.DispatcherConfig{Prefetch: 2})
	free, abandoned := make(chan struct{}), make(chan error, 9)
	settled := make(chan workqueue.Settlement, 9)
	hung := run(t, openAt(t, cl, workqueue.Config{Root: root, Backoff: workqueue.Backoff{Initial: time.Millisecond}}), workqueue.WorkerConfig{
		Concurrency: 1, Timeout: 50 * time.Millisecond, Grace: 50 * time.Millisecond, DrainTimeout: time.Millisecond,
		Hooks: workqueue.Hooks{
			Abandoned: func(_ *workqueue.Job, cause error) { abandoned <- cause },
			Settled:   func(_ *workqueue.Job, s workqueue.Settlement) { settled <- s },
		},
	}, func(context.Context, *workqueue.Claim) ([]byte, error) {
		<-free
		return []byte("late"), nil
	})
	enqueue(t, q, numbered(3, workqueue.Params{})...)
	receive(t, abandoned, "the handler is abandoned")
	assigned(t, cl, root, 0) // neither its own job nor those behind it wait for it
	run(t, openAt(t, cl, workqueue.Config{Root: root}), workqueue.WorkerConfig{Concurrency: 1}, counting(&tally{}))
	for i := range 3 {
		if j := wait(t, q, "j"+itoa(i)); j.State != workqueue.StateDone || !strings.HasSuffix(trail(j), "completed") {
			t.Errorf("%s is %s after %q", j.ID, j.State, trail(j))
		}
	}
	if err := hung.stop(t); err == nil {
		t.Error("Run says nothing of the hung handler")
	}
	close(free)
	if s := receive(t, settled, "the late result is judged"); !s.Refused || !errors.Is(s.Err, coord.ErrFenced) {
		t.Errorf("got %+v, want a refusal", s)
	}
}

// With another slot the worker goes on beside a hung handler. Its own job, which only
// this worker could take, waits until the handler has ended, and nobody spins over
// it.
func TestHungHandlerBesideOthers(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := dispatchQueue(t, cl, root)
	dispatch(t, cl, root, workqueue.DispatcherConfig{})
	free, abandoned := make(chan struct{}), make(chan error, 9)
	run(t, openAt(t, cl, workqueue.Config{Root: root, Backoff: workqueue.Backoff{Initial: time.Millisecond}}), workqueue.WorkerConfig{
		Concurrency: 2, Grace: 50 * time.Millisecond,
		Hooks: workqueue.Hooks{Abandoned: func(_ *workqueue.Job, cause error) { abandoned <- cause }},
	}, func(_ context.Context, c *workqueue.Claim) ([]byte, error) {
		if c.Job().ID == "hung" && c.Job().Attempt == 1 {
			<-free
		}
		return nil, nil
	})
	enqueue(t, q, workqueue.Params{ID: "hung", Timeout: 50 * time.Millisecond})
	receive(t, abandoned, "the handler is abandoned")
	until(t, cl, root, "its job has come back to the worker", func() bool { return strings.HasPrefix(trail(get(t, q, "hung")), "failed released") })
	enqueue(t, q, numbered(20, workqueue.Params{})...)
	for i := range 20 {
		wait(t, q, "j"+itoa(i))
	}
	close(free)
	j := wait(t, q, "hung")
	if j.State != workqueue.StateDone || j.Failures != 1 || j.Attempt > 30 { // one a second
		t.Errorf("got %s with %d failures after %d attempts: %q", j.State, j.Failures, j.Attempt, trail(j))
	}
}

// A session that ends while jobs run and wait: both go on with the next one, uncounted.
func TestSessionRevokedInModeDispatch(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := dispatchQueue(t, cl, root)
	dispatch(t, cl, root, workqueue.DispatcherConfig{Prefetch: 3})
	started, causes := make(chan *workqueue.Job, 9), make(chan error, 9)
	run(t, openAt(t, cl, workqueue.Config{Root: root}), workqueue.WorkerConfig{Concurrency: 1, SessionTTL: 20 * time.Second}, func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
		if c.Job().ID == "j0" && c.Job().Attempt == 1 {
			started <- c.Job()
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return nil, ctx.Err()
		}
		return nil, nil
	})
	enqueue(t, q, numbered(4, workqueue.Params{})...)
	first := receive(t, started, "the first job runs").Owner
	assigned(t, cl, root, 4)
	revoke(t, cl, root, first)
	if got := receive(t, causes, "the handler's context ends"); !errors.Is(got, coord.ErrSessionLost) {
		t.Errorf("got cause %v", got)
	}
	for i := range 4 {
		if j := wait(t, q, "j"+itoa(i)); j.State != workqueue.StateDone || j.Failures != 0 {
			t.Errorf("%s is %s after %q, %d losses", j.ID, j.State, trail(j), j.Losses)
		}
	}
	assigned(t, cl, root, 0)
}

// A job that is taken away while it waits in an inbox, or runs, is no more the
// worker's: broken claims go to another, cancelled ones to nobody.
func TestJobsTakenFromAnInbox(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := dispatchQueue(t, cl, root)
	dispatch(t, cl, root, workqueue.DispatcherConfig{Prefetch: 2})
	started, causes := make(chan string, 9), make(chan error, 9)
	busy := run(t, openAt(t, cl, workqueue.Config{Root: root}), workqueue.WorkerConfig{Concurrency: 1, SessionTTL: 20 * time.Second, DrainTimeout: -1}, func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
		started <- c.Job().ID
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil, ctx.Err()
	})
	enqueue(t, q, numbered(3, workqueue.Params{})...)
	receive(t, started, "the first job runs")
	assigned(t, cl, root, 3)
	if _, err := q.Cancel(bounded(t), "j1", tester); err != nil { // it waits
		t.Fatal(err)
	}
	assigned(t, cl, root, 2)
	if err := q.Pause(bounded(t), tester); err != nil { // or it would be assigned again at once
		t.Fatal(err)
	}
	if _, err := admin.BreakClaim(bounded(t), q, "j0", tester); err != nil { // it runs
		t.Fatal(err)
	}
	if got := receive(t, causes, "the handler of the broken claim stops"); !errors.Is(got, coord.ErrFenced) {
		t.Errorf("got cause %v", got)
	}
	if got := receive(t, started, "the next job runs"); got != "j2" {
		t.Errorf("%s runs next", got)
	}
	if err := q.Resume(bounded(t), tester); err != nil {
		t.Fatal(err)
	}
	run(t, openAt(t, cl, workqueue.Config{Root: root}), workqueue.WorkerConfig{Concurrency: 4}, counting(&tally{}))
	if _, err := admin.BreakClaim(bounded(t), q, "j2", tester); err != nil {
		t.Fatal(err)
	}
	receive(t, causes, "the handler of the other broken claim stops")
	busy.cancel()
	for _, id := range []string{"j0", "j2"} {
		if j := wait(t, q, id); j.State != workqueue.StateDone || !strings.HasPrefix(trail(j), "broken") {
			t.Errorf("%s is %s after %q", id, j.State, trail(j))
		}
	}
}
