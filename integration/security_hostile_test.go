package integration_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/election"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/line"
	"github.com/leasekit/leasekit/workqueue"
)

// junk is what a hostile or broken neighbour puts under our root. The large ones are
// as large as etcd takes.
var junk = map[string]string{
	"empty":         "",
	"text":          "hello",
	"binary":        "\x00\x01\xfe\xff",
	"1 MB binary":   strings.Repeat("\xff\x00", 500_000),
	"1 MB JSON":     `{"w":"00000000000000aa","v":1,"id":"x","kind":"` + strings.Repeat("x", 1_000_000) + `"}`,
	"null":          "null",
	"number":        "7",
	"list":          "[]",
	"cut off":       `{"w":"00000000000000aa","v":1,"id":"x`,
	"wrong types":   `{"w":"00000000000000aa","v":"1","id":7,"owner":[],"session":{},"kinds":"all","concurrency":"many","paused":"perhaps","token":{}}`,
	"newer":         `{"w":"00000000000000aa","v":99,"id":"x","schema":99}`,
	"nobody's":      `{"w":"00000000000000aa","v":1,"id":"x","owner":"nobody","owner_rev":"-1"}`,
	"a sleeper":     `{"w":"00000000000000aa","v":1,"id":"x","run_at":"9999-12-31T23:59:59-23:59","timeout_ms":9223372036854775807}`,
	"greedy":        `{"w":"00000000000000aa","kinds":["none"],"concurrency":9223372036854775807,"session":"a.0123456789abcdef","session_rev":"1","claim":"00000000000000aa"}`,
	"deep":          strings.Repeat(`{"w":`, 100_000),
	"deep and sane": `{"w":"00000000000000aa","v":1,"id":"x","future":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`,
	"not UTF-8":     `{"w":"00000000000000aa","v":1,"id":"` + "\xff\xfe" + `"}`,
}

// places are where it lies. The queue's config, the meta key and whole claims are not
// among them: junk there means something, and has tests of its own.
func places(root, sid string) []string {
	q := root + "queues/q/"
	places := []string{
		root, root + "sessions/", root + "sessions/" + sid + "/", root + "lanes/", root + "lanes/" + sid + "/", root + "queues/", root + "schedules/",
		q, q + "config/", q + "workers/", q + "workers/" + sid + "/", q + "jobs/", q + "jobs/00/", q + "jobs/00/deeper/", q + "payloads/", q + "progress/",
		q + "assigned/", q + "assigned/" + sid + "/", q + "done/", q + "dead/", q + "refused/", root + "queues/junk/jobs/",
		root + "locks/", root + "locks/l/", root + "locks/l/waiters/", root + "locks/junk/", root + "semaphores/s/slots/", root + "semaphores/s/waiters/",
		root + "elections/e/", root + "elections/e/candidates/", root + "elections/dispatcher%3Aq/candidates/",
	}
	return places
}

// litter puts every piece of junk in every place, some of it on a lease, under a sane
// name and under one that is none.
func litter(t *testing.T, cl *clientv3.Client, root, sid string) {
	t.Helper()
	lease, err := cl.Grant(bounded(t), 600)
	mustDo(t, err)
	n := 0
	for _, place := range places(root, sid) {
		for name, value := range junk {
			if len(value) > 100_000 && n%8 != 0 { // some of the large ones are enough
				value = value[:100_000]
			}
			key := place + strings.ReplaceAll(name, " ", "-")
			if n%3 == 1 {
				key = place + "\xff\xfe" + name
			}
			var opts []clientv3.OpOption
			if n%2 == 1 {
				opts = append(opts, clientv3.WithLease(lease.ID))
			}
			_, err := cl.Put(bounded(t), key, value, opts...)
			mustDo(t, err)
			n++
		}
	}
	t.Logf("%d keys of junk", n)
}

// Whatever a neighbour puts under our root, nobody crashes, spins or waits for it: jobs
// are done in both modes, before and behind it, locks are handed on, and listings
// report it and go on.
func TestSecurityHostileNeighbour(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, etcdtest.Config{})
	root := etcdtest.Root(t)
	cl := c.Client(t)
	var rec etcdtest.Recorder
	q := open(t, c.Client(t, rec.DialOptions()...), root)
	by := workqueue.By{Actor: "test"}
	stop := serve(t, q)
	defer stop()
	done := func(id string) {
		t.Helper()
		add(t, q, workqueue.Params{ID: id, Payload: make([]byte, 2<<10)})
		if j, err := q.Wait(bounded(t), id); err != nil || j.State != workqueue.StateDone {
			t.Fatalf("%s: %+v, %v", id, j, err)
		}
	}
	done("before")
	owner := ownerOf(t, q, "before")
	litter(t, cl, root, owner) // live, through the watches
	done("claimed")
	mustDo(t, q.SetMode(bounded(t), "dispatch", by))
	done("dispatched")
	mustDo(t, q.SetMode(bounded(t), "claim", by))
	done("claimed again")
	// Who comes now lists it.
	late := open(t, cl, root)
	stopLate := serve(t, late)
	defer stopLate()
	stop()
	done("by the late one")
	mustDo(t, q.SetMode(bounded(t), "dispatch", by))
	done("dispatched by the late one")
	hostileListings(t, q, cl, root)
	hostileLocks(t, cl, root)
	before := rec.Counts()
	stopLate()
	if n := before["Txn"] + before["Range"]; n > 3000 {
		t.Errorf("it took %d requests: %v", n, before)
	}
}

// serve runs a worker that also dispatches, until stop.
func serve(t *testing.T, q *workqueue.Queue) (stop func()) {
	t.Helper()
	w, err := workqueue.NewWorker(q, workqueue.HandlerFunc(func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
		if c.Job().ID == "x" {
			return nil, errors.New("junk is worked")
		}
		return nil, c.Checkpoint(ctx, []byte("here"))
	}), workqueue.WorkerConfig{SessionTTL: 30 * time.Second, StandForDispatcher: true})
	mustDo(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- w.Run(ctx) }()
	stopped := false
	return func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-ran:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("the worker does not stop")
		}
	}
}

// ownerOf is the session that worked a job.
func ownerOf(t *testing.T, q *workqueue.Queue, id string) string {
	t.Helper()
	j, err := q.Get(bounded(t), id)
	mustDo(t, err)
	return j.Attempts[0].Owner
}

// hostileListings reads everything that can be listed.
func hostileListings(t *testing.T, q *workqueue.Queue, cl *clientv3.Client, root string) {
	t.Helper()
	good, bad := 0, 0
	for j, err := range q.List(bounded(t), workqueue.Filter{}) {
		switch {
		case errors.Is(err, workqueue.ErrUndecodable):
			bad++
		case err != nil:
			t.Errorf("list: %v", err)
		case j.State == workqueue.StateDone:
			good++
		}
	}
	if good != 6 || bad < 3*len(junk) {
		t.Errorf("listed %d jobs and reported %d records", good, bad)
	}
	if st, err := admin.Count(bounded(t), q); err != nil || st.Jobs[workqueue.StateReady] != 0 {
		t.Errorf("stats: %+v, %v", st, err)
	}
	if broken, err := admin.Undecodable(bounded(t), q); err != nil || len(broken) < len(junk) {
		t.Errorf("%d records are reported, %v", len(broken), err)
	}
	if _, err := admin.Refusals(bounded(t), q); err != nil {
		t.Error(err)
	}
	store, err := etcdkv.NewStore(cl, root, nil)
	mustDo(t, err)
	queues := workqueue.Queues{Client: cl, Root: root}
	for name, list := range map[string]func() error{
		"locks":     func() error { _, err := line.LockNames(bounded(t), store); return err },
		"elections": func() error { _, err := line.ElectionNames(bounded(t), store); return err },
		"queues":    func() error { _, err := queues.Names(bounded(t)); return err },
		"lock":      func() error { _, err := line.LockState(bounded(t), store, "l"); return err },
		"election":  func() error { _, err := line.LeadershipState(bounded(t), store, "e"); return err },
	} {
		if err := list(); err != nil {
			t.Errorf("list %s: %v", name, err)
		}
	}
}

// hostileLocks hands claims on among junk: in the line, and then in the claims
// themselves.
func hostileLocks(t *testing.T, cl *clientv3.Client, root string) {
	t.Helper()
	useLocks(t, cl, root)
	for name, value := range junk {
		if name == "1 MB binary" || name == "1 MB JSON" {
			value = value[:200_000]
		}
		for _, key := range []string{"locks/l/holder", "semaphores/s/slots/0", "elections/e/leader"} {
			_, err := cl.Put(bounded(t), root+key, value)
			mustDo(t, err)
		}
		useLocks(t, cl, root)
	}
	e, err := election.New(cl, election.Config{Name: "e", Root: root})
	mustDo(t, err)
	ctx, cancel := context.WithCancel(bounded(t))
	states := e.Observe(ctx)
	if st := <-states; st.Status != election.None {
		t.Errorf("observed %+v", st)
	}
	cancel()
	for range states {
	}
}

// A config that nobody can read stops the queue, says so, and is mended by hand; what
// runs meanwhile goes on. A schema that is newer lets no new session in,
// and no new producer.
func TestSecurityJunkThatMeansSomething(t *testing.T) {
	t.Parallel()
	cl, root := etcdtest.Shared(t).Client(t), etcdtest.Root(t)
	q := open(t, cl, root)
	stop := serve(t, q)
	defer stop()
	add(t, q, workqueue.Params{ID: "before"})
	_, err := q.Wait(bounded(t), "before")
	mustDo(t, err)
	for name, value := range map[string]string{"cut off": `{"paused":`, "wrong type": `{"paused":"perhaps"}`, "binary": "\x00\xff", "empty": ""} {
		_, err := cl.Put(bounded(t), root+"queues/q/config", value)
		mustDo(t, err)
		add(t, q, workqueue.Params{ID: name})
		if _, err := admin.Settings(bounded(t), q); err == nil {
			t.Errorf("%s: the config was read", name)
		}
		if err := q.Resume(bounded(t), workqueue.By{}); err == nil {
			t.Errorf("%s: the config was written over", name)
		}
		if j, err := q.Get(bounded(t), name); err != nil || j.State != workqueue.StateReady {
			t.Errorf("%s: got %+v, %v", name, j, err)
		}
		_, err = cl.Delete(bounded(t), root+"queues/q/config")
		mustDo(t, err)
		if j, err := q.Wait(bounded(t), name); err != nil || j.State != workqueue.StateDone {
			t.Errorf("%s: got %+v, %v", name, j, err)
		}
	}
	for name, value := range map[string]string{"newer": `{"schema":99}`, "binary": "\x00", "text": "hello", "wrong type": `{"schema":"1"}`} {
		_, err := cl.Put(bounded(t), root+"meta", value)
		mustDo(t, err)
		if q, err := workqueue.Open(bounded(t), cl, workqueue.Config{Queue: "q", Root: root}); err == nil {
			t.Errorf("%s: queue %s was opened", name, q.Name())
		} else if name == "newer" && !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
		if s, err := coord.OpenSession(bounded(t), cl, coord.SessionConfig{Root: root}); err == nil {
			t.Errorf("%s: got session %s", name, s.ID())
		}
	}
	if resp, err := cl.Get(bounded(t), root+"sessions/", clientv3.WithPrefix()); err != nil || resp.Count > 2 { // the worker's and its candidate's
		t.Errorf("left behind: %v, %v", resp, err)
	}
	add(t, q, workqueue.Params{ID: "after"}) // who is in, stays in
	_, err = q.Wait(bounded(t), "after")
	mustDo(t, err)
	_, err = cl.Delete(bounded(t), root+"meta")
	mustDo(t, err)
}
