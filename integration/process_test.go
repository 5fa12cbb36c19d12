package integration_test

import (
	"context"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/workqueue"
)

// patience bounds what a test waits for; nothing is expected to take that long.
const patience = 60 * time.Second

func bounded(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func open(t testing.TB, cl *clientv3.Client, root string) *workqueue.Queue {
	t.Helper()
	q, err := workqueue.Open(bounded(t), cl, workqueue.Config{Queue: "q", Root: root})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Errorf("close queue: %v", err)
		}
	})
	return q
}

func add(t testing.TB, q *workqueue.Queue, p workqueue.Params) {
	t.Helper()
	if _, err := q.Enqueue(bounded(t), p); err != nil {
		t.Fatal(err)
	}
}

// takeover lets a process take a job, kills or freezes it, and returns how long after
// that another process runs the job, and how long after the end of the lease.
func takeover(t testing.TB, cl *clientv3.Client, q *workqueue.Queue, endpoint, root, ttl, id string, how syscall.Signal) (sinceKill, sinceEnd time.Duration) {
	t.Helper()
	victim := start(t, endpoint, root, ttl, "yield")
	add(t, q, workqueue.Params{ID: id})
	victim.expect(t, "started "+id)
	heir := start(t, endpoint, root, ttl, "yield")
	add(t, q, workqueue.Params{ID: id + "-ping", Kind: "ping"})
	if _, err := q.Wait(bounded(t), id+"-ping"); err != nil { // the victim has no free slot: the heir serves
		t.Fatal(err)
	}
	ended := sessionEnd(t, cl, root)
	killed := time.Now()
	victim.signal(t, how)
	heir.expect(t, "started "+id)
	now := time.Now()
	heir.signal(t, syscall.SIGKILL)
	return now.Sub(killed), now.Sub(<-ended)
}

// sessionEnd tells when the next session under root ends, as etcd says.
func sessionEnd(t testing.TB, cl *clientv3.Client, root string) <-chan time.Time {
	t.Helper()
	ended := make(chan time.Time, 1)
	deaths := cl.Watch(bounded(t), root+"sessions/", clientv3.WithPrefix(), clientv3.WithFilterPut())
	go func() {
		for range deaths {
			ended <- time.Now()
			return
		}
	}()
	return ended
}

// The job of a process that is killed runs again, in another process.
func TestWorkerKilled(t *testing.T) {
	t.Parallel()
	c, root := etcdtest.Shared(t), etcdtest.Root(t)
	cl := c.Client(t)
	q := open(t, cl, root)
	kill, end := takeover(t, cl, q, c.Endpoints()[0], root, "2s", "j", syscall.SIGKILL)
	t.Logf("running again %v after the kill and %v after the lease's end, with a TTL of 2s", kill, end)
	j, err := q.Get(bounded(t), "j")
	if err != nil || j.Attempt != 2 || j.Losses > 1 {
		t.Errorf("got %+v, %v", j, err)
	}
}

// A process that is stopped past its lease and woken finds its context ended, its
// result refused with a typed error, and evidence of that is kept. The job was
// worked by another meanwhile.
func TestSurvives_03_WorkerStoppedPastItsLease(t *testing.T) {
	t.Parallel()
	c, root := etcdtest.Shared(t), etcdtest.Root(t)
	cl := c.Client(t)
	q := open(t, cl, root)
	victim := start(t, c.Endpoints()[0], root, "2s", "block")
	add(t, q, workqueue.Params{ID: "j"})
	victim.expect(t, "started j")
	victim.signal(t, syscall.SIGSTOP)
	heir := start(t, c.Endpoints()[0], root, "2s", "block")
	heir.expect(t, "started j")
	victim.signal(t, syscall.SIGCONT)
	if got := victim.expect(t, "ended j"); !strings.Contains(got, "session lost") {
		t.Errorf("the context ended as %q", got)
	}
	if got, want := victim.expect(t, "settled j"), "settled j completed refused=true *coord.FencedError"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for found := false; !found; {
		refusals, err := admin.Refusals(bounded(t), q)
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

// A job that kills every process that takes it is buried with evidence; the others
// are done.
func TestPillKillsProcesses(t *testing.T) {
	t.Parallel()
	c, root := etcdtest.Shared(t), etcdtest.Root(t)
	q := open(t, c.Client(t), root)
	add(t, q, workqueue.Params{ID: "pill", Kind: "pill", Priority: 1})
	for _, id := range []string{"a", "b", "c"} {
		add(t, q, workqueue.Params{ID: id})
	}
	ctx := bounded(t)
	dead := make(chan *workqueue.Job, 1)
	go func() {
		j, err := q.Wait(ctx, "pill")
		if err != nil {
			t.Error(err)
		}
		dead <- j
	}()
	deaths := 0
	for buried := false; !buried; {
		p := start(t, c.Endpoints()[0], root, "1s", "pill")
		select {
		case <-p.done:
			deaths++
		case j := <-dead:
			buried = true
			if j == nil {
				t.FailNow()
			}
			if j.State != workqueue.StateDead || j.Losses != 3 || len(j.Attempts) != 3 {
				t.Errorf("got %s with %d losses and %d attempts: %s", j.State, j.Losses, len(j.Attempts), j.Error)
			}
			if err := q.WaitEmpty(ctx); err != nil {
				t.Error(err)
			}
		}
	}
	t.Logf("%d processes died", deaths)
	if deaths > 4 {
		t.Errorf("%d processes died of the pill", deaths)
	}
}

// BenchmarkTakeover reports how long after the end of its lease, and after the kill,
// a dead process's job runs again. The last renewal was a quarter of the TTL before
// the kill at most, so the sum of both bounds the time from it.
func BenchmarkTakeover(b *testing.B) {
	const ttl = 2 * time.Second
	c := etcdtest.Shared(b)
	cl := c.Client(b)
	var kills, ends []time.Duration
	for b.Loop() {
		root := etcdtest.Root(b)
		kill, end := takeover(b, cl, open(b, cl, root), c.Endpoints()[0], root, ttl.String(), "j", syscall.SIGKILL)
		kills, ends = append(kills, kill), append(ends, end)
	}
	slices.Sort(kills)
	slices.Sort(ends)
	last, mid := len(kills)-1, len(kills)/2
	b.ReportMetric(float64((kills[last] + ttl/4).Milliseconds()), "ms-from-renewal-at-most")
	b.ReportMetric(float64(kills[mid].Milliseconds()), "ms-from-kill-median")
	b.ReportMetric(float64(ends[mid].Milliseconds()), "ms-from-lease-end-median")
	b.ReportMetric(float64(ends[last].Milliseconds()), "ms-from-lease-end-worst")
}
