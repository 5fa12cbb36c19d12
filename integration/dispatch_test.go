package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/election"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/workqueue"
)

// handOut is a child's life as a dispatcher.
func handOut(ctx context.Context, endpoint, root, ttl string) error {
	d, err := time.ParseDuration(ttl)
	if err != nil {
		return err
	}
	cl, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer cl.Close()
	q, err := workqueue.Open(ctx, cl, workqueue.Config{Queue: "q", Root: root})
	if err != nil {
		return err
	}
	defer q.Close()
	dispatcher, err := workqueue.NewDispatcher(q, workqueue.DispatcherConfig{TTL: d, Prefetch: 3})
	if err != nil {
		return err
	}
	return dispatcher.Run(ctx)
}

// office is a queue in mode dispatch, and what the test watches its leader with.
type office struct {
	c        *etcdtest.Cluster
	cl       *clientv3.Client
	root     string
	q        *workqueue.Queue
	observer *election.Elector
}

func newOffice(t testing.TB) *office {
	t.Helper()
	o := &office{c: etcdtest.Shared(t), root: etcdtest.Root(t)}
	o.cl = o.c.Client(t)
	o.q = open(t, o.cl, o.root)
	if err := o.q.SetMode(bounded(t), "dispatch", workqueue.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	var err error
	if o.observer, err = election.New(o.cl, election.Config{Name: o.q.DispatcherElection(), Root: o.root}); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *office) start(t testing.TB, handler string) *process {
	t.Helper()
	return start(t, o.c.Endpoints()[0], o.root, "2s", handler)
}

// leader blocks until another session than the one given leads, and returns its
// process.
func (o *office) leader(t testing.TB, not string, among ...*process) (session string, p *process) {
	t.Helper()
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	for s := range o.observer.Observe(ctx) {
		if s.Status != election.Leader || s.Session == not {
			continue
		}
		var record struct {
			PID int `json:"pid"`
		}
		resp, err := o.cl.Get(ctx, o.root+"sessions/"+s.Session)
		if err != nil || len(resp.Kvs) != 1 || json.Unmarshal(resp.Kvs[0].Value, &record) != nil {
			t.Fatalf("session %s: %v, %v", s.Session, resp, err)
		}
		i := slices.IndexFunc(among, func(p *process) bool { return p.cmd.Process.Pid == record.PID })
		if i < 0 {
			t.Fatalf("process %d leads, which is none of ours", record.PID)
		}
		return s.Session, among[i]
	}
	t.Fatal("nobody leads")
	return "", nil
}

// assigned blocks until n jobs are in inboxes.
func (o *office) assigned(t testing.TB, n int64) {
	t.Helper()
	prefix := o.root + "queues/q/assigned/"
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	watch := o.cl.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	for range watch {
		resp, err := o.cl.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			t.Fatal(err)
		}
		if resp.Count == n {
			return
		}
	}
	t.Fatalf("there were never %d jobs assigned", n)
}

// 20 workers share 200 jobs; the dispatcher's process is killed in the middle. The
// standby assigns once the lease is over, and each job is done by one run.
func TestDispatcherKilled(t *testing.T) {
	t.Parallel()
	const jobs, workers, ttl = 200, 20, 2 * time.Second
	o := newOffice(t)
	var mu sync.Mutex
	runs := map[string]int{}
	ran := make(chan time.Time, jobs)
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() {
		stop()
		wg.Wait()
	})
	for range workers {
		w, err := workqueue.NewWorker(open(t, o.cl, o.root), workqueue.HandlerFunc(func(_ context.Context, c *workqueue.Claim) ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			runs[c.Job().ID]++
			ran <- time.Now()
			return nil, nil
		}), workqueue.WorkerConfig{Concurrency: 2, SessionTTL: 20 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			if err := w.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	all := []*process{o.start(t, "dispatch"), o.start(t, "dispatch")}
	session, victim := o.leader(t, "", all...)
	for i := range jobs / 2 {
		add(t, o.q, workqueue.Params{ID: fmt.Sprint(i)})
	}
	for range jobs / 4 {
		<-ran
	}
	killed := time.Now()
	victim.signal(t, syscall.SIGKILL)
	for i := range jobs / 2 {
		add(t, o.q, workqueue.Params{ID: fmt.Sprint(jobs/2 + i)})
	}
	_, heir := o.leader(t, session, all...)
	if heir == victim {
		t.Error("a killed process leads")
	}
	t.Logf("the standby leads %v after the kill, with a TTL of %v", time.Since(killed), ttl)
	for i := range jobs {
		j, err := o.q.Wait(bounded(t), fmt.Sprint(i))
		if err != nil || j.State != workqueue.StateDone || j.Attempt != 1 {
			t.Fatalf("job %d: %+v, %v", i, j, err)
		}
	}
	t.Logf("all is done %v after the kill", time.Since(killed))
	if took := time.Since(killed); took > ttl+20*time.Second { // promised: TTL + 1.5 s
		t.Errorf("it took %v", took)
	}
	mu.Lock()
	defer mu.Unlock()
	for id, n := range runs {
		if n != 1 {
			t.Errorf("job %s ran %d times", id, n)
		}
	}
	if len(runs) != jobs {
		t.Errorf("%d jobs ran, want %d", len(runs), jobs)
	}
	o.assigned(t, 0)
}

// A worker's process is killed with one job running and three waiting in its inbox:
// another gets them all, in their order.
func TestWorkerKilledWithAFullInbox(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.start(t, "dispatch")
	victim := o.start(t, "block")
	for i := range 4 {
		add(t, o.q, workqueue.Params{ID: fmt.Sprint(i)})
	}
	victim.expect(t, "started 0")
	o.assigned(t, 4)
	victim.signal(t, syscall.SIGKILL)
	for i := range 4 {
		heir := o.start(t, "block")
		heir.expect(t, fmt.Sprint("started ", i))
		o.assigned(t, int64(4-i))
		heir.signal(t, syscall.SIGTERM) // its handler's result counts; the rest goes back
		if got, want := heir.expect(t, fmt.Sprint("settled ", i)), fmt.Sprintf("settled %d completed refused=false <nil>", i); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		<-heir.done
	}
	for i := range 4 {
		j, err := o.q.Wait(bounded(t), fmt.Sprint(i))
		if err != nil || j.State != workqueue.StateDone || j.Losses > 1 || j.Attempts[0].Outcome != "lost" {
			t.Errorf("job %d: %+v, %v", i, j, err)
		}
	}
}

// A worker's process is stopped past its lease: its jobs go to another, and what it
// says when it wakes up is refused.
func TestWorkerStoppedPastItsLeaseInModeDispatch(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.start(t, "dispatch")
	victim := o.start(t, "block")
	add(t, o.q, workqueue.Params{ID: "j"})
	victim.expect(t, "started j")
	add(t, o.q, workqueue.Params{ID: "waiting"})
	o.assigned(t, 2)
	victim.signal(t, syscall.SIGSTOP)
	heir := o.start(t, "block")
	heir.expect(t, "started j")
	o.assigned(t, 2)
	victim.signal(t, syscall.SIGCONT)
	if got := victim.expect(t, "ended j"); !strings.Contains(got, "session lost") {
		t.Errorf("the context ended as %q", got)
	}
	if got, want := victim.expect(t, "settled j"), "settled j completed refused=true *coord.FencedError"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	victim.signal(t, syscall.SIGTERM)
	for found := false; !found; {
		refusals, err := admin.Refusals(bounded(t), o.q)
		if err != nil {
			t.Fatal(err)
		}
		found = refusals["j"].Verb == "complete" && refusals["j"].Size == len("late")
	}
	heir.signal(t, syscall.SIGTERM)
	if got, want := heir.expect(t, "settled j"), "settled j completed refused=false <nil>"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
