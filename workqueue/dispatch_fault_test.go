package workqueue_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/election"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/workqueue"
)

// standby blocks until one candidate waits, and returns its session.
func standby(t *testing.T, cl *clientv3.Client, root string, e *election.Elector) (session string) {
	t.Helper()
	until(t, cl, root, "a standby waits", func() bool {
		waiting, err := e.Candidates(bounded(t))
		if err == nil && len(waiting) == 1 {
			session = waiting[0]
		}
		return session != ""
	})
	return session
}

// The dispatcher freezes in the middle of the work, its lease ends, and it wakes up
// later: a standby goes on, and every job is done once, by its first attempt.
func TestFrozenDispatcherIsReplaced(t *testing.T) {
	t.Parallel()
	const jobs, workers, ttl = 200, 20, 2 * time.Second
	c := etcdtest.New(t, etcdtest.Config{Proxies: true})
	cl, root := c.Client(t), etcdtest.Root(t)
	q := dispatchQueue(t, cl, root)
	runs := &tally{}
	assignedAt := make(chan time.Time, jobs)
	for range workers {
		run(t, openAt(t, cl, workqueue.Config{Root: root}), workqueue.WorkerConfig{SessionTTL: 20 * time.Second, Concurrency: 2}, func(_ context.Context, c *workqueue.Claim) ([]byte, error) {
			runs.add(c.Job().ID)
			assignedAt <- time.Now()
			return nil, nil
		})
	}
	frozen := dispatch(t, c.ProxiedClient(t), root, workqueue.DispatcherConfig{TTL: ttl})
	leads(t, cl, root, frozen)
	heir := dispatch(t, cl, root, workqueue.DispatcherConfig{TTL: ttl})
	standby(t, cl, root, heir.Elector())
	items := numbered(jobs, workqueue.Params{})
	enqueue(t, q, items[:jobs/2]...)
	for range jobs / 4 {
		receive(t, assignedAt, "jobs run")
	}
	began := time.Now()
	c.Proxy(0).Pause()
	enqueue(t, q, items[jobs/2:]...)
	leads(t, cl, root, heir)
	t.Logf("the standby leads %v after the dispatcher froze, with a TTL of %v", time.Since(began), ttl)
	for i := range jobs {
		wait(t, q, "j"+itoa(i))
	}
	t.Logf("all is done %v after the dispatcher froze", time.Since(began))
	if took := time.Since(began); took > ttl+20*time.Second { // promised: TTL + 1.5 s
		t.Errorf("it took %v", took)
	}
	c.Proxy(0).Heal()
	ranOnce(t, cl, root, q, runs, jobs)
}

// A worker is cut off past its lease: what it was assigned goes to others, from the
// front, and what it says then is refused, with evidence.
func TestCutOffWorkerInModeDispatch(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, etcdtest.Config{Proxies: true})
	cl, root := c.Client(t), etcdtest.Root(t)
	q := dispatchQueue(t, cl, root)
	crowd(t, cl, root)
	dispatch(t, cl, root, workqueue.DispatcherConfig{Prefetch: 2})
	started := make(chan string, 9)
	finish := make(chan struct{})
	settled := make(chan workqueue.Settlement, 9)
	run(t, openAt(t, c.ProxiedClient(t), workqueue.Config{Root: root}), workqueue.WorkerConfig{
		Concurrency: 1, SessionTTL: 6 * time.Second, Grace: patience, // its handler goes on
		Hooks: workqueue.Hooks{Settled: func(_ *workqueue.Job, s workqueue.Settlement) { settled <- s }},
	}, func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
		started <- c.Job().ID
		<-finish
		return []byte("late"), nil
	})
	enqueue(t, q, numbered(3, workqueue.Params{})...)
	receive(t, started, "the first job runs")
	assigned(t, cl, root, 3)
	c.Proxy(0).Pause()
	enqueue(t, q, workqueue.Params{ID: "younger"})
	order := make(chan string, 9)
	hold := make(chan struct{})
	run(t, openAt(t, cl, workqueue.Config{Root: root}), workqueue.WorkerConfig{Concurrency: 1, SessionTTL: 20 * time.Second}, func(_ context.Context, c *workqueue.Claim) ([]byte, error) {
		order <- c.Job().ID
		if c.Job().ID == "younger" {
			<-hold // until the others are orphans
		}
		return []byte("good"), nil
	})
	if got := receive(t, order, "the other worker is at work"); got != "younger" {
		t.Errorf("%s came first", got)
	}
	enqueue(t, q, workqueue.Params{ID: "youngest"})
	until(t, cl, root, "the cut-off session ends", func() bool {
		resp, err := cl.Get(bounded(t), keysOf(t, root).Workers(), clientv3.WithPrefix(), clientv3.WithCountOnly())
		return err == nil && resp.Count == 1
	})
	close(hold)
	var got []string
	for range 4 {
		got = append(got, receive(t, order, "the next job"))
	}
	// "youngest" may have been given to the inbox before the session ended.
	if i := slices.Index(got, "youngest"); i >= 0 {
		got = slices.Delete(got, i, i+1)
	}
	if want := []string{"j0", "j1", "j2"}; !slices.Equal(got, want) {
		t.Errorf("they came as %q, want %q", got, want)
	}
	c.Proxy(0).Heal()
	close(finish)
	if s := receive(t, settled, "the late result is judged"); !s.Refused || !errors.Is(s.Err, coord.ErrFenced) {
		t.Errorf("got %+v, want a refusal", s)
	}
	until(t, cl, root, "evidence is kept", func() bool {
		found, err := admin.Refusals(bounded(t), q)
		return err == nil && found["j0"].Verb == "complete" && found["j0"].Size == len("late")
	})
	if j := wait(t, q, "j0"); string(j.Result) != "good" || !strings.HasSuffix(trail(j), "completed") {
		t.Errorf("j0 has result %q after %q", j.Result, trail(j))
	}
}

// rival is an elector that leads a queue's dispatchers and assigns nothing, so that
// what an earlier dispatcher still sends meets no other obstacle than the leader's
// fence.
func rival(t *testing.T, cl *clientv3.Client, root string, q *workqueue.Queue) (e *election.Elector, leads chan string) {
	t.Helper()
	e, err := election.New(cl, election.Config{Name: q.DispatcherElection(), Root: root})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	leads = make(chan string, 9)
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = e.Run(ctx, func(ctx context.Context, term *election.Term) error {
			leads <- term.Session()
			<-ctx.Done()
			return nil
		})
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return e, leads
}

// holder holds the Txns of a client back that put keys with such a part, by default
// those that assign jobs, for ever but for deliver.
type holder struct {
	part    string
	mu      sync.Mutex
	holding bool
	held    []func() error
	caught  chan struct{}
}

func (h *holder) option() grpc.DialOption { return grpc.WithChainUnaryInterceptor(h.intercept) }

func (h *holder) hold(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holding = on
}

func (h *holder) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	txn, ok := req.(*pb.TxnRequest)
	h.mu.Lock()
	hit := h.holding && ok && puts(txn, []byte(cmp.Or(h.part, "/assigned/")))
	if hit {
		h.held = append(h.held, func() error { return invoke(context.WithoutCancel(ctx), method, req, &pb.TxnResponse{}, cc) })
	}
	h.mu.Unlock()
	if !hit {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	select {
	case h.caught <- struct{}{}:
	default:
	}
	<-ctx.Done()
	return ctx.Err()
}

// deliver sends the first Txn that was held, and returns when etcd has judged it.
func (h *holder) deliver(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	send := h.held[0]
	h.mu.Unlock()
	if err := send(); err != nil {
		t.Fatal(err)
	}
}

// wantUnassigned checks that nobody was given the job.
func wantUnassigned(t *testing.T, cl *clientv3.Client, root string, q *workqueue.Queue, id string) {
	t.Helper()
	if j := get(t, q, id); j.State != workqueue.StateReady || j.Attempt != 0 {
		t.Errorf("%s is %s, attempt %d, although the dispatcher that assigned it was deposed", id, j.State, j.Attempt)
	}
	if n := inboxes(t, cl, root); n != 0 {
		t.Errorf("%d jobs are assigned", n)
	}
}

// An assignment is on its way when its dispatcher's lease ends, and arrives when
// another leads: it is refused, by the leader's fence alone. Then the queue goes on.
func TestSurvives_54_LateAssignmentOfADeposedDispatcher(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, etcdtest.Config{Proxies: true})
	cl, root := c.Client(t), etcdtest.Root(t)
	q := dispatchQueue(t, cl, root)
	run(t, openAt(t, cl, workqueue.Config{Root: root}), workqueue.WorkerConfig{SessionTTL: 20 * time.Second}, counting(&tally{}))
	old := dispatch(t, c.ProxiedClient(t), root, workqueue.DispatcherConfig{TTL: 20 * time.Second})
	leads(t, cl, root, old)
	enqueue(t, q, workqueue.Params{ID: "first"})
	wait(t, q, "first") // its lane is open
	session := old.Elector().Term().Session()
	next, elected := rival(t, cl, root, q)
	standby(t, cl, root, next)
	proxy := c.Proxy(0)
	proxy.PauseRequests()
	enqueue(t, q, workqueue.Params{ID: "j"})
	if err := proxy.WaitRequests(bounded(t), 1); err != nil {
		t.Fatal(err)
	}
	proxy.Sever()
	revoke(t, cl, root, session)
	receive(t, elected, "the rival leads")
	proposed := raftIndex(t, cl, c)
	if err := proxy.Deliver(bounded(t)); err != nil {
		t.Fatal(err)
	}
	until(t, cl, root, "the late request is judged", func() bool { return raftIndex(t, cl, c) > proposed })
	wantUnassigned(t, cl, root, q, "j")
	proxy.Heal() // and the old dispatcher's repeats arrive
	standby(t, cl, root, next)
	if err := next.Resign(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if j := wait(t, q, "j"); trail(j) != "completed" {
		t.Errorf("%s after %q", j.State, trail(j))
	}
}

func raftIndex(t *testing.T, cl *clientv3.Client, c *etcdtest.Cluster) uint64 {
	t.Helper()
	resp, err := cl.Status(bounded(t), c.Endpoints()[0])
	if err != nil {
		t.Fatal(err)
	}
	return resp.RaftIndex
}

// Leadership is transferred in the moment in which the old dispatcher assigns: the
// assignment arrives behind the transfer, and is refused.
func TestTransferOvertakesAnAssignment(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := dispatchQueue(t, cl, root)
	run(t, openAt(t, cl, workqueue.Config{Root: root}), workqueue.WorkerConfig{SessionTTL: 20 * time.Second}, counting(&tally{}))
	h := &holder{caught: make(chan struct{}, 1)}
	old := dispatch(t, etcdtest.Shared(t).Client(t, h.option()), root, workqueue.DispatcherConfig{TTL: time.Minute})
	leads(t, cl, root, old)
	enqueue(t, q, workqueue.Params{ID: "first"})
	wait(t, q, "first") // its lane is open
	next, elected := rival(t, cl, root, q)
	waiting := standby(t, cl, root, next)
	h.hold(true)
	enqueue(t, q, workqueue.Params{ID: "j"})
	receive(t, h.caught, "the old dispatcher assigns")
	if err := old.Elector().Transfer(bounded(t), waiting); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, elected, "the rival leads"); got != waiting {
		t.Errorf("session %s leads, want %s", got, waiting)
	}
	h.deliver(t)
	wantUnassigned(t, cl, root, q, "j")
	h.hold(false)
	standby(t, cl, root, next)
	if err := next.Resign(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if j := wait(t, q, "j"); trail(j) != "completed" {
		t.Errorf("%s after %q", j.State, trail(j))
	}
}

// The answers to a dispatcher's assignments are lost: each job is worked once all the
// same.
func TestAnswersToAssignmentsLost(t *testing.T) {
	t.Parallel()
	c := etcdtest.Shared(t)
	l := &lossy{}
	cl, root := c.Client(t), etcdtest.Root(t)
	q := dispatchQueue(t, cl, root)
	runs := &tally{}
	run(t, openAt(t, cl, workqueue.Config{Root: root}), workqueue.WorkerConfig{Concurrency: 4, SessionTTL: 20 * time.Second}, counting(runs))
	d := dispatch(t, c.Client(t, l.option()), root, workqueue.DispatcherConfig{TTL: 20 * time.Second})
	leads(t, cl, root, d)
	const jobs = 40
	for i := range jobs {
		l.next(1, "/assigned/", nil)
		enqueue(t, q, workqueue.Params{ID: "j" + itoa(i)})
		if i%4 == 0 {
			wait(t, q, "j"+itoa(i))
		}
	}
	ranOnce(t, cl, root, q, runs, jobs)
	if l.losses() == 0 {
		t.Error("no answer was lost")
	}
}
