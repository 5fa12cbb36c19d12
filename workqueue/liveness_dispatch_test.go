package workqueue_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/inside"
	"github.com/leasekit/leasekit/workqueue"
)

// runMember runs a member whose session outlives workers, with a TTL that no test waits
// for.
func runMember(t *testing.T, cl *clientv3.Client, root string) *coord.SessionKeeper {
	t.Helper()
	m := coord.NewSessionKeeper(cl, coord.SessionConfig{Root: root, TTL: 10 * time.Minute})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("member: %v", err)
		}
	})
	return m
}

// A worker stops while its link is cut, and its session goes on: what it was assigned
// goes to others once the link is back, in both modes of its end: by Run's ctx, and
// with its handle closed.
func TestAWorkerLeavesBehindItsEnd(t *testing.T) {
	for _, closes := range []bool{false, true} {
		t.Run(map[bool]string{false: "its handle open", true: "its handle closed"}[closes], func(t *testing.T) {
			t.Parallel()
			c := etcdtest.New(t, etcdtest.Config{Proxies: true})
			cl, root := c.Client(t), etcdtest.Root(t)
			q := dispatchQueue(t, cl, root)
			dispatch(t, cl, root, workqueue.DispatcherConfig{})
			own := c.ProxiedClient(t)
			m := runMember(t, own, root)
			handle, err := workqueue.Open(bounded(t), own, workqueue.Config{Queue: "q", Root: root})
			if err != nil {
				t.Fatal(err)
			}
			w := run(t, handle, workqueue.WorkerConfig{Concurrency: 8, SessionKeeper: m, DrainTimeout: -1, Grace: time.Millisecond}, counting(&tally{}))
			enqueue(t, q, workqueue.Params{ID: "before"})
			wait(t, q, "before")
			c.Proxy(0).Pause()
			if err := w.stop(t); err != nil {
				t.Error(err)
			}
			if closes {
				_ = handle.Close() // it says that its lanes are not drained
			}
			enqueue(t, q, numbered(8, workqueue.Params{})...)
			assigned(t, cl, root, 8)
			runs := &tally{}
			run(t, openAt(t, cl, workqueue.Config{Root: root}), workqueue.WorkerConfig{}, counting(runs))
			c.Proxy(0).Heal()
			for i := range 8 {
				if j := wait(t, q, "j"+itoa(i)); j.Losses+j.Failures != 0 || runs.get(j.ID) != 1 {
					t.Errorf("%s: %d losses, %d failures, %d runs", j.ID, j.Losses, j.Failures, runs.get(j.ID))
				}
			}
			s, err := m.Session(bounded(t))
			if err != nil {
				t.Fatal(err)
			}
			<-inside.Of(s).Book().Drained()
			if !closes {
				if err := handle.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A registration that was held up arrives after its worker has left: it does not come
// back to draw jobs.
func TestALateRegistrationDoesNotComeBack(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := dispatchQueue(t, cl, root)
	dispatch(t, cl, root, workqueue.DispatcherConfig{})
	h := &holder{part: "/workers/", caught: make(chan struct{}, 1)}
	own := etcdtest.Shared(t).Client(t, h.option())
	m := runMember(t, own, root)
	h.hold(true)
	w := run(t, openAt(t, own, workqueue.Config{Root: root}), workqueue.WorkerConfig{SessionKeeper: m}, counting(&tally{}))
	receive(t, h.caught, "the registration is sent")
	h.hold(false)
	if err := w.stop(t); err != nil {
		t.Error(err)
	}
	s, err := m.Session(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	until(t, cl, root, "the worker has left", func() bool { return inside.Of(s).Book().Len() == 0 })
	h.deliver(t)
	enqueue(t, q, numbered(40, workqueue.Params{})...)
	runs := &tally{}
	run(t, openAt(t, cl, workqueue.Config{Root: root}), workqueue.WorkerConfig{Concurrency: 4}, counting(runs))
	ranOnce(t, cl, root, q, runs, 40)
	resp, err := cl.Get(bounded(t), keysOf(t, root).Worker(s.ID()))
	if err != nil || len(resp.Kvs) != 1 || !strings.Contains(string(resp.Kvs[0].Value), `"left":true`) {
		t.Errorf("workers/%s is %v, %v, want a tombstone", s.ID(), resp, err)
	}
}

// A worker may follow another on the same session and queue, but not join it.
func TestTwoWorkersOnOneSessionAndQueue(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := dispatchQueue(t, cl, root)
	dispatch(t, cl, root, workqueue.DispatcherConfig{})
	m := runMember(t, cl, root)
	first := run(t, q, workqueue.WorkerConfig{SessionKeeper: m}, counting(&tally{}))
	enqueue(t, q, workqueue.Params{ID: "a"})
	wait(t, q, "a")
	for name, handle := range map[string]*workqueue.Queue{"on the same handle": q, "on another handle": openAt(t, cl, workqueue.Config{Root: root})} {
		second := run(t, handle, workqueue.WorkerConfig{SessionKeeper: m}, counting(&tally{}))
		<-second.done
		if !errors.Is(second.err, coord.ErrInvalid) || !strings.Contains(second.err.Error(), "one worker per queue and session") {
			t.Errorf("%s: got %v, want that it is refused, and the way out", name, second.err)
		}
	}
	other := openAt(t, cl, workqueue.Config{Root: root, Queue: "other"})
	run(t, other, workqueue.WorkerConfig{SessionKeeper: m}, counting(&tally{}))
	enqueue(t, other, workqueue.Params{ID: "a"})
	wait(t, other, "a")
	if err := first.stop(t); err != nil {
		t.Error(err)
	}
	run(t, q, workqueue.WorkerConfig{SessionKeeper: m}, counting(&tally{}))
	enqueue(t, q, workqueue.Params{ID: "b"})
	wait(t, q, "b")
}

// A newer dispatcher assigns a job whose record this program cannot read, and something
// spoils the inbox entry of another: both go back, and say so.
func TestAnAssignmentThatCannotBeReadGoesBack(t *testing.T) {
	for name, spoil := range map[string]struct {
		job, entry func(value string) string
		want       workqueue.State
	}{
		"a newer record": {
			func(v string) string { return strings.Replace(v, `"v":1`, `"v":99,"future":{"a":1}`, 1) },
			func(v string) string { return strings.Replace(v, `"v":1`, `"v":99,"future":{"a":1}`, 1) }, "",
		},
		"a spoiled entry": {func(v string) string { return v }, func(string) string { return "junk" }, workqueue.StateReady},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cl, root := shared(t)
			q := dispatchQueue(t, cl, root)
			m := runMember(t, cl, root)
			run(t, openAt(t, cl, workqueue.Config{Root: root}), workqueue.WorkerConfig{SessionKeeper: m}, counting(&tally{}))
			s, err := m.Session(bounded(t))
			if err != nil {
				t.Fatal(err)
			}
			keys := keysOf(t, root)
			until(t, cl, root, "the worker is registered", func() bool {
				resp, err := cl.Get(bounded(t), keys.Worker(s.ID()))
				return err == nil && len(resp.Kvs) == 1
			})
			setMode(t, q, "claim") // nothing but this test assigns
			setMode(t, q, "dispatch")
			if err := q.Pause(bounded(t), tester); err != nil {
				t.Fatal(err)
			}
			enqueue(t, q, workqueue.Params{ID: "x"})
			resp, err := cl.Get(bounded(t), keys.Job("x"))
			if err != nil {
				t.Fatal(err)
			}
			claimed := strings.TrimSuffix(string(resp.Kvs[0].Value), "}") + `,"attempt":1,"owner":"` + s.ID() + `","owner_rev":"` + itoa64(inside.Of(s).CreateRevision()) + `","claimed_at":"2026-01-01T00:00:00Z","assigned":true}`
			_, err = cl.Txn(bounded(t)).Then(clientv3.OpPut(keys.Job("x"), spoil.job(claimed)), clientv3.OpPut(keys.Assigned(s.ID(), "x"), spoil.entry(claimed))).Commit()
			if err != nil {
				t.Fatal(err)
			}
			until(t, cl, root, "the job goes back", func() bool {
				resp, err := cl.Get(bounded(t), keys.Job("x"))
				return err == nil && len(resp.Kvs) == 1 && !strings.Contains(string(resp.Kvs[0].Value), `"owner_rev"`)
			})
			if n := inboxes(t, cl, root); n != 0 {
				t.Errorf("%d entries are left", n)
			}
			resp, err = cl.Get(bounded(t), keys.Job("x"))
			if err != nil {
				t.Fatal(err)
			}
			if value := string(resp.Kvs[0].Value); name == "a newer record" && (!strings.Contains(value, `"v":99`) || !strings.Contains(value, `"future":{"a":1}`) || !strings.Contains(value, `"released"`)) {
				t.Errorf("the record is %s: its version, what is not known, or its log is gone", value)
			}
			if spoil.want != "" {
				if j := get(t, q, "x"); j.State != spoil.want {
					t.Errorf("it is %s", j.State)
				}
			}
			until(t, cl, root, "only the registration is in the book", func() bool { return inside.Of(s).Book().Len() == 1 })
		})
	}
}

func itoa64(n int64) string { return coord.Token(n).String() }
