package workqueue_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/workqueue"
)

// revoke ends the lease of a session, as an operator would.
func revoke(t testing.TB, cl *clientv3.Client, root, sid string) {
	t.Helper()
	resp, err := cl.Get(bounded(t), root+"sessions/"+sid)
	if err != nil || len(resp.Kvs) != 1 {
		t.Fatalf("session %s: %v, %v", sid, resp, err)
	}
	if _, err := cl.Revoke(bounded(t), clientv3.LeaseID(resp.Kvs[0].Lease)); err != nil {
		t.Fatal(err)
	}
}

// A session that an operator ends mid-job: the handler's context ends with the cause,
// the job is given back under the old fence, uncounted, and while the old handler
// runs this process leaves it alone. TestSurvives_01, as far as it is about jobs.
func TestSurvives_01_SessionRevokedMidJob(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := openAt(t, cl, workqueue.Config{Root: root})
	starts := make(chan string, 8)
	causes := make(chan error, 8)
	goOn := make(chan struct{})
	var mu sync.Mutex
	inside := 0
	run(t, q, workqueue.WorkerConfig{Concurrency: 4, SessionTTL: 20 * time.Second}, func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
		starts <- c.Job().Owner
		if c.Job().ID != "j" {
			return nil, nil
		}
		mu.Lock()
		if inside++; inside > 1 {
			t.Error("two handlers of one job run in one process")
		}
		mu.Unlock()
		defer func() {
			mu.Lock()
			inside--
			mu.Unlock()
		}()
		if c.Job().Attempt > 1 {
			return []byte("again"), nil
		}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		<-goOn
		return nil, ctx.Err()
	})
	enqueue(t, q, workqueue.Params{ID: "j"})
	first := receive(t, starts, "the handler starts")
	revoke(t, cl, root, first)
	if got := receive(t, causes, "the context ends"); !errors.Is(got, coord.ErrSessionLost) {
		t.Errorf("got cause %v, want session lost", got)
	}
	// The next session is up and serves, but does not take the job.
	enqueue(t, q, workqueue.Params{ID: "other"})
	second := receive(t, starts, "the other job starts")
	if second == first {
		t.Error("the lost session goes on")
	}
	close(goOn)
	j := wait(t, q, "j")
	if trail(j) != "released completed" || j.Losses != 0 || j.Failures != 0 {
		t.Errorf("got trail %q, %d losses, %d failures", trail(j), j.Losses, j.Failures)
	}
}

// A handler that ignores its context loses its job after timeout and grace: another
// worker does it, and what the hung one returns is refused, with evidence.
func TestHungHandler(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	hungQ, q := openAt(t, cl, workqueue.Config{Root: root}), openAt(t, cl, workqueue.Config{Root: root, Backoff: workqueue.Backoff{Initial: time.Millisecond}})
	abandoned := make(chan error, 1)
	settled := make(chan workqueue.Settlement, 8)
	free := make(chan struct{})
	starts := &tally{}
	hung := run(t, hungQ, workqueue.WorkerConfig{
		Concurrency: 1, Timeout: 50 * time.Millisecond, Grace: 50 * time.Millisecond, DrainTimeout: time.Millisecond,
		Hooks: workqueue.Hooks{
			Abandoned: func(_ *workqueue.Job, cause error) { abandoned <- cause },
			Settled:   func(_ *workqueue.Job, s workqueue.Settlement) { settled <- s },
		},
	}, func(context.Context, *workqueue.Claim) ([]byte, error) {
		starts.add("hung")
		<-free
		return []byte("late"), nil
	})
	enqueue(t, q, workqueue.Params{ID: "j"})
	if got := receive(t, abandoned, "the handler is abandoned"); !errors.Is(got, workqueue.ErrAttemptTimeout) {
		t.Errorf("got cause %v, want a timeout", got)
	}
	run(t, q, workqueue.WorkerConfig{}, func(context.Context, *workqueue.Claim) ([]byte, error) { return []byte("good"), nil })
	j := wait(t, q, "j")
	if string(j.Result) != "good" || trail(j) != "failed completed" || j.Failures != 1 {
		t.Errorf("got result %q after %q", j.Result, trail(j))
	}
	if got := starts.get("hung"); got != 1 {
		t.Errorf("the hung worker's slot was used %d times", got)
	}
	if err := hung.stop(t); err == nil || !strings.Contains(err.Error(), "still run: 1") {
		t.Errorf("Run returned %v, want a word about the hung handler", err)
	}
	close(free)
	if s := receive(t, settled, "the late result is judged"); !s.Refused || !errors.Is(s.Err, coord.ErrFenced) {
		t.Errorf("got %+v, want a refusal", s)
	}
	until(t, cl, root, "evidence is kept", func() bool {
		found, err := admin.Refusals(bounded(t), q)
		return err == nil && found["j"].Verb == "complete"
	})
}

// crash claims a job with a session of its own, which then ends as by a crash:
// nothing is given back. The job's next owner must come before the test ends.
func crash(t testing.TB, cl *clientv3.Client, root string, q *workqueue.Queue, act func(*workqueue.Claim)) {
	t.Helper()
	s := session(t, cl, root)
	cm := claim(t, cl, root, q, s)
	if act != nil {
		act(cm)
	}
	revoke(t, cl, root, s.ID())
}

// crowd makes it look as if many sessions lived, so that a few deaths are no cut.
func crowd(t testing.TB, cl *clientv3.Client, root string) {
	t.Helper()
	for i := range 100 {
		if _, err := cl.Put(bounded(t), root+"sessions/crowd."+itoa(i), "{}"); err != nil {
			t.Fatal(err)
		}
	}
}

// A job that ends its workers is buried after its losses, with its trail as evidence,
// while others are done.
func TestPoisonPill(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := openAt(t, cl, workqueue.Config{Root: root, Backoff: workqueue.Backoff{Initial: time.Millisecond}})
	crowd(t, cl, root)
	enqueue(t, q, workqueue.Params{ID: "pill", Priority: 1}, workqueue.Params{ID: "good"})
	for get(t, q, "pill").State.Live() {
		s := session(t, cl, root)
		var c *workqueue.Claim
		until(t, cl, root, "the pill is claimed or dead", func() bool {
			c, _ = q.Claim(bounded(t), s)
			return c != nil || !get(t, q, "pill").State.Live()
		})
		if c != nil && c.Job().ID == "good" {
			if err := c.Complete(bounded(t), nil); err != nil {
				t.Error(err)
			}
		}
		revoke(t, cl, root, s.ID())
	}
	j := get(t, q, "pill")
	if j.State != workqueue.StateDead || j.Losses != 3 || trail(j) != "lost lost lost" {
		t.Errorf("got %s with %d losses after %q: %s", j.State, j.Losses, trail(j), j.Error)
	}
	s := session(t, cl, root)
	if g := get(t, q, "good"); g.State.Live() {
		if err := claim(t, cl, root, q, s).Complete(bounded(t), nil); err != nil {
			t.Error(err)
		}
	}
	if g := get(t, q, "good"); g.State != workqueue.StateDone {
		t.Errorf("the good job is %s", g.State)
	}
}

// A loss with progress since the claim does not count.
func TestLossWithProgressDoesNotCount(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	crowd(t, cl, root) // or four losses in a row would be a cut, which counts nothing either
	q := openAt(t, cl, workqueue.Config{Root: root})
	enqueue(t, q, workqueue.Params{ID: "j"})
	for range 4 {
		crash(t, cl, root, q, func(c *workqueue.Claim) {
			if err := c.Checkpoint(bounded(t), []byte("on")); err != nil {
				t.Error(err)
			}
		})
	}
	cm := claim(t, cl, root, q, session(t, cl, root))
	if j := cm.Job(); j.Losses != 0 || string(j.Checkpoint) != "on" || trail(j) != "lost lost lost lost" {
		t.Errorf("got %d losses after %q with checkpoint %q", j.Losses, trail(j), j.Checkpoint)
	}
}

// An orphan is claimed before younger jobs of its priority, and behind higher ones.
func TestOrphanIsNext(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := openAt(t, cl, workqueue.Config{Root: root})
	enqueue(t, q, workqueue.Params{ID: "old"})
	crash(t, cl, root, q, nil)
	enqueue(t, q, workqueue.Params{ID: "young"}, workqueue.Params{ID: "urgent", Priority: 1})
	fresh := openAt(t, cl, workqueue.Config{Root: root}) // its mirror shows all that
	s := session(t, cl, root)
	for _, want := range []string{"urgent", "old", "young"} {
		if got := claim(t, cl, root, fresh, s).Job().ID; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// When sessions end in numbers, no job is to blame.
func TestCutCountsNoLoss(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := openAt(t, cl, workqueue.Config{Root: root})
	const n = 6
	enqueue(t, q, numbered(n, workqueue.Params{MaxLosses: 2})...)
	for round := range 3 {
		var sids []string
		for range n {
			s := session(t, cl, root)
			claim(t, cl, root, q, s)
			sids = append(sids, s.ID())
		}
		for _, sid := range sids {
			revoke(t, cl, root, sid)
		}
		t.Logf("round %d", round)
	}
	s := session(t, cl, root)
	for range n {
		if j := claim(t, cl, root, q, s).Job(); j.Losses != 0 || trail(j) != "lost lost lost" {
			t.Errorf("%s: got %d losses after %q", j.ID, j.Losses, trail(j))
		}
	}
}

// A process runs at most one job with two counted losses at a time.
func TestSuspectsRunAlone(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := openAt(t, cl, workqueue.Config{Root: root, Backoff: workqueue.Backoff{Initial: time.Millisecond}})
	crowd(t, cl, root)
	enqueue(t, q, numbered(3, workqueue.Params{MaxLosses: 9})...)
	suspects := func() (n int) {
		for j, err := range q.List(bounded(t), workqueue.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			if j.Losses >= 2 {
				n++
			}
		}
		return n
	}
	for range 20 {
		if suspects() == 3 {
			break
		}
		crash(t, cl, root, q, nil)
	}
	if got := suspects(); got != 3 {
		t.Fatalf("only %d suspects came about", got)
	}
	var mu sync.Mutex
	inside := 0
	w := openAt(t, cl, workqueue.Config{Root: root})
	enqueue(t, w, workqueue.Params{ID: "free"})
	started := make(chan struct{}, 9)
	run(t, w, workqueue.WorkerConfig{Concurrency: 8}, func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
		if c.Job().Losses < 2 {
			started <- struct{}{}
			return nil, nil
		}
		mu.Lock()
		if inside++; inside > 1 {
			t.Error("two suspects run at once")
		}
		mu.Unlock()
		receive(t, started, "a job that is no suspect runs beside")
		started <- struct{}{}
		mu.Lock()
		inside--
		mu.Unlock()
		return nil, nil
	})
	if err := w.WaitEmpty(bounded(t)); err != nil {
		t.Error(err)
	}
}

// What a handler returns after its session's Close gave its claim back counts for
// nothing, and the worker says so.
func TestSettledAfterTheSessionGaveTheClaimBack(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := openAt(t, cl, workqueue.Config{Root: root})
	m := coord.NewSessionKeeper(cl, coord.SessionConfig{Root: root, TTL: 20 * time.Second})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = m.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	settled := make(chan workqueue.Settlement, 8)
	run(t, q, workqueue.WorkerConfig{SessionKeeper: m, Hooks: workqueue.Hooks{
		Settled: func(_ *workqueue.Job, s workqueue.Settlement) { settled <- s },
	}}, func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
		if c.Job().Attempt > 1 {
			return []byte("again"), nil
		}
		s, err := m.Session(ctx)
		if err != nil {
			return nil, err
		}
		return []byte("late"), s.Close(context.WithoutCancel(ctx))
	})
	enqueue(t, q, workqueue.Params{ID: "j"})
	first := receive(t, settled, "the first attempt is settled")
	if !first.Refused || first.Err == nil {
		t.Errorf("got %+v, want it refused", first)
	}
	if j := wait(t, q, "j"); string(j.Result) != "again" {
		t.Errorf("got result %q", j.Result)
	}
}
