package workqueue_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/workqueue"
)

// waitRig has a job "j" with somebody behind a proxy who waits for it.
type waitRig struct {
	t      *testing.T
	c      *etcdtest.Cluster
	cl     *clientv3.Client
	root   string
	q      *workqueue.Queue
	s      *coord.Session
	job    *workqueue.Job
	ended  chan *workqueue.Job
	failed chan error
}

func newWaitRig(t *testing.T, c *etcdtest.Cluster) *waitRig {
	t.Helper()
	r := &waitRig{
		t: t, c: c, cl: c.Client(t), root: etcdtest.Root(t), ended: make(chan *workqueue.Job, 1), failed: make(chan error, 1),
	}
	r.q = openAt(t, r.cl, workqueue.Config{Root: r.root})
	r.s = session(t, r.cl, r.root)
	r.enqueue()
	return r
}

func (r *waitRig) enqueue() {
	r.t.Helper()
	j := enqueue(r.t, r.q, workqueue.Params{ID: "j"})[0]
	if r.job == nil {
		r.job = j
	}
}

func (r *waitRig) complete(result string) {
	r.t.Helper()
	if err := claim(r.t, r.cl, r.root, r.q, r.s).Complete(bounded(r.t), []byte(result)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *waitRig) bury() {
	r.t.Helper()
	if err := claim(r.t, r.cl, r.root, r.q, r.s).Fail(bounded(r.t), workqueue.Permanent(errors.New("first"))); err != nil {
		r.t.Fatal(err)
	}
}

func (r *waitRig) must(_ *workqueue.Job, err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// wait begins to wait, on a connection of its own.
func (r *waitRig) wait(rec *etcdtest.Recorder, begin func(context.Context, *workqueue.Queue) (*workqueue.Job, error)) {
	r.t.Helper()
	q := openAt(r.t, r.c.ProxiedClient(r.t, rec.DialOptions()...), workqueue.Config{Root: r.root})
	ctx := bounded(r.t)
	go func() {
		j, err := begin(ctx, q)
		r.ended <- j
		r.failed <- err
	}()
}

// outcome is what the waiter was told, as state and result, or that there is none.
func (r *waitRig) outcome() string {
	r.t.Helper()
	j, err := receive(r.t, r.ended, "the wait ends"), <-r.failed
	switch {
	case errors.Is(err, workqueue.ErrNotFound) && strings.Contains(err.Error(), "a later one"):
		return "another's"
	case errors.Is(err, workqueue.ErrNotFound):
		return "gone"
	case err != nil:
		r.t.Fatal(err)
	case j.Born != r.job.Born:
		return "of another job: " + string(j.State)
	}
	return strings.TrimSpace(string(j.State) + " " + string(j.Result))
}

// meanwhile is what happens while a waiter hears nothing, and what it is to be told: when
// it had met the job and sees what happened, late; when it asks for the very job only
// behind all that; and the one and the other when etcd has forgotten the past.
var meanwhile = []struct {
	name                                   string
	act                                    func(r *waitRig)
	late, behind, lateCompacted, compacted string
}{
	{"it ends", func(r *waitRig) { r.complete("1") }, "done 1", "done 1", "done 1", "done 1"},
	{"it ends and comes again", func(r *waitRig) { r.complete("1"); r.enqueue() }, "done 1", "done 1", "another's", "another's"},
	{"it ends, and two later ones", func(r *waitRig) {
		r.complete("1")
		r.enqueue()
		r.complete("2")
		r.enqueue()
		r.complete("3")
	}, "done 1", "done 1", "another's", "another's"},
	{"it dies and comes again", func(r *waitRig) { r.bury(); r.enqueue(); r.complete("2") }, "dead", "dead", "another's", "another's"},
	{"it is cancelled and comes again", func(r *waitRig) {
		r.must(r.q.Cancel(bounded(r.t), "j", tester))
		r.enqueue()
	}, "cancelled", "cancelled", "another's", "another's"},
	{"it dies, is brought back and ends", func(r *waitRig) {
		r.bury()
		r.must(r.q.Requeue(bounded(r.t), "j", tester))
		r.complete("1")
	}, "dead", "done 1", "done 1", "done 1"},
	{"it ends and is deleted", func(r *waitRig) {
		r.complete("1")
		r.must(admin.Delete(bounded(r.t), r.q, "j", tester))
	}, "done 1", "gone", "gone", "gone"},
	{"it is deleted", func(r *waitRig) { r.must(admin.Delete(bounded(r.t), r.q, "j", tester)) }, "gone", "gone", "gone", "gone"},
	{"it is deleted and comes again", func(r *waitRig) {
		r.must(admin.Delete(bounded(r.t), r.q, "j", tester))
		r.enqueue()
		r.complete("2")
	}, "gone", "another's", "another's", "another's"},
	{"it is moved and comes again", func(r *waitRig) {
		r.must(admin.Move(bounded(r.t), r.q, "j", "other", tester))
		r.enqueue()
	}, "gone", "another's", "another's", "another's"},
}

// A wait is for one job. Whatever happens before the waiter hears of it, it is told what
// became of that one, or that nothing is left of it, and never of a later one's end.
func TestAWaitIsForOneJob(t *testing.T) {
	byID := func(ctx context.Context, q *workqueue.Queue) (*workqueue.Job, error) { return q.Wait(ctx, "j") }
	for _, compacted := range []bool{false, true} {
		t.Run(map[bool]string{false: "kept", true: "compacted"}[compacted], func(t *testing.T) {
			t.Parallel()
			c := etcdtest.New(t, etcdtest.Config{Proxies: true})
			for _, tc := range meanwhile {
				late, behind := tc.late, tc.behind
				if compacted {
					late, behind = tc.lateCompacted, tc.compacted
				}
				act := func(r *waitRig) {
					tc.act(r)
					if compacted {
						compactAll(t, r.cl, r.root)
					}
				}
				t.Run(tc.name+"/late", func(t *testing.T) {
					r, rec := newWaitRig(t, c), &etcdtest.Recorder{}
					r.wait(rec, byID)
					if err := rec.Wait(bounded(t), "Watch.create", 1); err != nil {
						t.Fatal(err)
					}
					defer c.Proxy(0).Heal()
					c.Proxy(0).Refuse() // which cuts its connection
					act(r)
					c.Proxy(0).Heal()
					if got := r.outcome(); got != late {
						t.Errorf("told %q, want %q", got, late)
					}
				})
				t.Run(tc.name+"/behind", func(t *testing.T) {
					r := newWaitRig(t, c)
					act(r)
					r.wait(&etcdtest.Recorder{}, func(ctx context.Context, q *workqueue.Queue) (*workqueue.Job, error) { return q.WaitFor(ctx, r.job) })
					if got := r.outcome(); got != behind {
						t.Errorf("told %q, want %q", got, behind)
					}
				})
			}
		})
	}
}

// Waiters with an answer that takes 150 ms, while the job ends and its ID comes again
// over and over: each is told of the job that it was given.
func TestSlowWaitersAreToldOfTheirOwnJobs(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, etcdtest.Config{Proxies: true})
	c.Proxy(0).Slow(150 * time.Millisecond)
	r := newWaitRig(t, c)
	slow := openAt(t, c.ProxiedClient(t), workqueue.Config{Root: r.root})
	type told struct {
		want string
		job  *workqueue.Job
		err  error
	}
	const n = 8
	answers := make(chan told, n)
	for i := range n {
		j, ctx, want := get(t, r.q, "j"), bounded(t), itoa(i)
		go func() {
			got, err := slow.WaitFor(ctx, j)
			answers <- told{want, got, err}
		}()
		r.complete(want)
		r.enqueue()
	}
	for range n {
		if a := receive(t, answers, "a wait ends"); a.err != nil || string(a.job.Result) != a.want {
			t.Errorf("job %s: got the end of another, or %v", a.want, a.err)
		}
	}
}

// A producer may wait for its job while that is claimed, and has no right to read
// sessions.
func TestAWaitReadsNoSessions(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q, s := openAt(t, cl, workqueue.Config{Root: root}), session(t, cl, root)
	j := enqueue(t, q, workqueue.Params{ID: "j"})[0]
	c := claim(t, cl, root, q, s)
	rec := &etcdtest.Recorder{}
	opts := append(rec.DialOptions(), grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if get, ok := req.(*pb.RangeRequest); ok && strings.HasPrefix(string(get.Key), root+"sessions/") {
				return status.Error(codes.PermissionDenied, "etcdserver: permission denied")
			}
			return invoke(ctx, method, req, reply, cc, opts...)
		}))
	producer := openAt(t, etcdtest.Shared(t).Client(t, opts...), workqueue.Config{Root: root})
	if _, err := producer.Get(bounded(t), "j"); err == nil {
		t.Fatal("the producer may read sessions")
	}
	ended, ctx := make(chan error, 1), bounded(t)
	go func() {
		_, err := producer.WaitFor(ctx, j)
		ended <- err
	}()
	if err := rec.Wait(bounded(t), "Watch.create", 1); err != nil { // it has met the claimed job
		t.Fatal(err)
	}
	if err := c.Complete(bounded(t), nil); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, ended, "the wait ends"); err != nil {
		t.Error(err)
	}
}

func TestWaitForRefusesWhatIsNoJobOfTheQueue(t *testing.T) {
	cl, root := shared(t)
	q := openAt(t, cl, workqueue.Config{Root: root})
	for name, j := range map[string]*workqueue.Job{
		"nil": nil, "made by hand": {Queue: "q", ID: "j"}, "of another queue": {Queue: "other", ID: "j", Born: "b"},
	} {
		var wrong *coord.InputError
		if _, err := q.WaitFor(bounded(t), j); !errors.As(err, &wrong) || wrong.Field != "job" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Junk makes the look for live jobs go page by page. A job that ends with the enqueue of
// another, while the pages are read, leaves no moment at which the queue is empty.
func TestWaitEmptyLooksAtOneMoment(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	keys := keysOf(t, root)
	first, second := "", "" // by their keys, the one before all junk, the other behind it
	for i := 0; first == "" || second == ""; i++ {
		id := "j" + itoa(i)
		if key := keys.Job(id); key < keys.Jobs()+"40" {
			first = id
		} else if key > keys.Jobs()+"c0" {
			second = id
		}
	}
	for i := range 40 {
		if _, err := cl.Put(bounded(t), keys.Jobs()+"80/junk"+itoa(100+i), "junk"); err != nil {
			t.Fatal(err)
		}
	}
	q, s := openAt(t, cl, workqueue.Config{Root: root}), session(t, cl, root)
	enqueue(t, q, workqueue.Params{ID: second})
	c := claim(t, cl, root, q, s)
	_, _, ops, err := q.EnqueueOps(workqueue.Params{ID: first})
	if err != nil {
		t.Fatal(err)
	}
	// The mirror of the waiter is not asked: in mode dispatch only etcd is.
	setMode(t, q, "dispatch")
	pages := 0
	waiter := openAt(t, etcdtest.Shared(t).Client(t, grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			err := invoke(ctx, method, req, reply, cc, opts...)
			if get, ok := req.(*pb.RangeRequest); ok && get.Limit > 0 && err == nil {
				if pages++; pages == 1 {
					if err := c.CompleteWith(bounded(t), nil, ops...); err != nil {
						t.Error(err)
					}
				}
			}
			return err
		})), workqueue.Config{Root: root})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := waiter.WaitEmpty(ctx); err == nil {
		t.Error("the queue is said to be empty, and never was")
	}
	if pages < 2 {
		t.Errorf("%d pages were read, want more", pages)
	}
}
