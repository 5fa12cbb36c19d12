package workqueue

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/faultproxy"
	"github.com/leasekit/leasekit/internal/inside"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/job/jobtest"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/queue"
	"github.com/leasekit/leasekit/internal/ready"
)

// A claim hears that another history has another record at its revision, however the
// index gets to know, and does not take itself for one.
func TestAClaimHearsOfAnotherHistory(t *testing.T) {
	txns := jobtest.Txns(t, "/t/")
	mine, other := jobtest.Twice(t, txns.Keys.Job("x"), "claimed", 10)
	r, err := job.Decode(mine.Value)
	if err != nil {
		t.Fatal(err)
	}
	for _, before := range []bool{true, false} { // is it followed
		x := ready.NewIndex(txns.Space, "q")
		q := &Queue{core: &queue.Core{Txns: txns, Index: x}}
		c := q.newClaim(nil, job.Snapshot{Record: r, Where: job.InJobs, Rev: 10})
		x.FeedJobs().Reset([]*mvccpb.KeyValue{mine}, 10)
		if before {
			c.unfollow = x.Follow("x", 10, c.moved)
			if err := c.life.Err(); err != nil {
				t.Errorf("its own record ended the claim: %v", context.Cause(c.life))
			}
		}
		x.FeedJobs().Apply([]*clientv3.Event{{Kv: other}}, 10)
		if !before {
			c.unfollow = x.Follow("x", 10, c.moved)
		}
		var fenced *coord.FencedError
		if cause := context.Cause(c.life); !errors.As(cause, &fenced) || fenced.Current != 10 {
			t.Errorf("followed before %t: got cause %v, want fenced at the same token", before, cause)
		}
	}
}

// An inbox entry of the same revision and another nonce is another assignment.
func TestAnInboxTellsHistoriesApart(t *testing.T) {
	txns := jobtest.Txns(t, "/t/")
	r, _ := jobtest.In("claimed")
	key := txns.Keys.Assigned(r.Owner, "x")
	old, now := jobtest.Twice(t, key, "claimed", 10)
	adopted, forgotten := 0, 0
	b := &inbox{
		keys: txns.Keys, sid: r.Owner, prefix: txns.Keys.Inbox(r.Owner), entries: map[string]*inboxEntry{}, changed: make(chan struct{}, 1),
		has: func(string) bool { return false }, keep: func(job.Snapshot) { adopted++ }, forget: func(string) { forgotten++ }, unread: func(*mvccpb.KeyValue) {},
	}
	for range 2 {
		b.Reset([]*mvccpb.KeyValue{old}, 10)
	}
	if adopted != 1 || forgotten != 0 {
		t.Fatalf("one entry, seen twice, was adopted %d and forgotten %d times", adopted, forgotten)
	}
	b.Reset([]*mvccpb.KeyValue{now}, 10)
	if left := b.waiting(); adopted != 2 || forgotten != 1 || len(left) != 1 || !left[0].at.IsFrom(now) {
		t.Errorf("adopted %d, forgotten %d, %d wait", adopted, forgotten, len(left))
	}
}

// What lies beside a job is not read for an assignment of another history, which the
// job's key has the revision of.
func TestAnAssignmentOfAnotherHistoryIsMissed(t *testing.T) {
	client, q, s := openServed(t)
	r, _ := jobtest.In("claimed")
	r.Owner, r.OwnerRev = s.ID(), inside.Of(s).CreateRevision()
	value, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Put(t.Context(), q.core.Keys().Job(r.ID), string(value))
	if err != nil {
		t.Fatal(err)
	}
	other := *r
	other.Nonce = keyspace.NewNonce()
	if c, err := q.claimAssigned(t.Context(), s, job.Snapshot{Record: &other, Where: job.InJobs, Rev: resp.Header.Revision}, true); !errors.Is(err, queue.ErrMissed) {
		t.Errorf("got %v, %v for a claim of another history", c, err)
		if c != nil {
			inside.Of(s).Book().Untrack(other.Nonce)
		}
	}
	c, err := q.claimAssigned(t.Context(), s, job.Snapshot{Record: r, Where: job.InJobs, Rev: resp.Header.Revision}, true)
	if err != nil {
		t.Fatal(err)
	}
	c.over(nil)
}

// etcd is rolled back while a worker is cut off from it, and has come further than
// before when the worker is back: no revision tells. A waiting job has the revision that
// another had in the history that is gone. It is worked all the same, and at once.
func TestAJobOfTheSameRevisionInAnotherHistoryIsWorked(t *testing.T) {
	for _, mode := range []string{ModeClaim, ModeDispatch} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := newRolledBack(t, mode)
			w.backup()
			before := w.enqueue("history a")
			w.sees(before)
			w.proxy.Refuse()
			w.rollBack()
			if after := w.enqueue("history b"); after.Revision != before.Revision {
				t.Fatalf("the job is at revision %d, want %d as before", after.Revision, before.Revision)
			}
			if err := w.ops.Resume(w.ctx, By{Actor: "me"}); err != nil {
				t.Fatal(err)
			}
			w.proxy.Heal()
			select {
			case got := <-w.worked:
				if got != "history b" {
					t.Errorf("%s was worked", got)
				}
			case <-w.ctx.Done():
				t.Error("the job was never worked")
			}
		})
	}
}

// rolledBack is a member that can be put back to a backup, and a worker behind a proxy
// that lives through it.
type rolledBack struct {
	t      *testing.T
	ctx    context.Context
	member *embedetcd.Member
	proxy  *faultproxy.Proxy
	direct *clientv3.Client
	root   string

	data, copy string
	ops        *Queue // past the proxy
	q          *Queue // the worker's
	worked     chan string
}

func newRolledBack(t *testing.T, mode string) *rolledBack {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	server, err := embedetcd.Start(ctx, embedetcd.Config{Fast: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	proxy, err := faultproxy.New(server.Endpoints()[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	member := server.Members()[0]
	w := &rolledBack{
		t: t, ctx: ctx, member: member, proxy: proxy, direct: etcdtest.NewClient(t, server.Endpoints()), root: etcdtest.Root(t),
		data: filepath.Join(server.Dir(), member.Name()), copy: filepath.Join(t.TempDir(), "backup"), worked: make(chan string, 9),
	}
	w.ops = w.open(w.direct)
	for _, err := range []error{w.ops.SetMode(ctx, mode, By{Actor: "me"}), w.ops.Pause(ctx, By{Actor: "me"})} {
		if err != nil {
			t.Fatal(err)
		}
	}
	w.q = w.open(etcdtest.NewClient(t, []string{proxy.Endpoint()}))
	w.run(WorkerConfig{SessionTTL: time.Minute, StandForDispatcher: true})
	return w
}

func (w *rolledBack) open(client *clientv3.Client) *Queue {
	w.t.Helper()
	q, err := Open(w.ctx, client, Config{Queue: "q", Root: w.root})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = q.Close() })
	return q
}

// run runs the worker, and waits until it has told etcd of itself.
func (w *rolledBack) run(cfg WorkerConfig) {
	w.t.Helper()
	worker, err := NewWorker(w.q, HandlerFunc(func(_ context.Context, c *Claim) ([]byte, error) {
		w.worked <- string(c.Job().Payload)
		return nil, nil
	}), cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = worker.Run(ctx)
	}()
	w.t.Cleanup(func() {
		stop()
		<-done
	})
	w.shows("the worker and, where there is one, its dispatcher", func(x *ready.Index) bool { return x.Peers() == 1 })
}

// shows waits until the worker's index shows something.
func (w *rolledBack) shows(what string, cond func(*ready.Index) bool) {
	w.t.Helper()
	changed, stop := w.q.core.Index.Listen()
	defer stop()
	for !cond(w.q.core.Index) {
		select {
		case <-changed:
		case <-w.ctx.Done():
			w.t.Fatalf("the index never showed %s", what)
		}
	}
}

func (w *rolledBack) sees(j *Job) {
	w.t.Helper()
	w.shows("the job", func(x *ready.Index) bool { l, ok := x.Shown(j.ID); return ok && l.Rev == j.Revision })
}

// enqueue puts the job in with one write, by a handle of its own.
func (w *rolledBack) enqueue(payload string) *Job {
	w.t.Helper()
	j, err := w.open(w.direct).Enqueue(w.ctx, Params{ID: "x", Payload: []byte(payload)})
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

func (w *rolledBack) backup()   { w.restartOn(w.data, w.copy) }
func (w *rolledBack) rollBack() { w.restartOn(w.copy, w.data) }

// restartOn stops the member, copies its data, and starts it again.
func (w *rolledBack) restartOn(from, to string) {
	w.t.Helper()
	w.member.Stop()
	for _, err := range []error{os.RemoveAll(to), os.CopyFS(to, os.DirFS(from)), w.member.Restart(w.ctx)} {
		if err != nil {
			w.t.Fatal(err)
		}
	}
}
