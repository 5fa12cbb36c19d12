package workqueue

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/inside"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/job/jobtest"
	"github.com/leasekit/leasekit/internal/queue"
)

// Whatever lies in an inbox, only a claim of its own session is worked.
func TestAnInboxHoldsOwnClaimsOnly(t *testing.T) {
	txns := jobtest.Txns(t, "/t/")
	const me = "me.0000000000000001"
	kept, unread, inBook := 0, 0, map[string]bool{}
	b := &inbox{
		keys: txns.Keys, sid: me, prefix: txns.Keys.Inbox(me), entries: map[string]*inboxEntry{}, changed: make(chan struct{}, 1),
		has:  func(nonce string) bool { return inBook[nonce] },
		keep: func(at job.Snapshot) { kept++; inBook[at.Record.Nonce] = true }, forget: func(string) {}, unread: func(*mvccpb.KeyValue) { unread++ },
	}
	mine, _ := jobtest.In("claimed")
	mine.Owner = me
	others, _ := jobtest.In("claimed")
	open, _ := jobtest.In("open, due")
	b.Reset([]*mvccpb.KeyValue{
		jobtest.KeyOf(t, txns.Keys.Assigned(me, "x"), others, 10),
		jobtest.KeyOf(t, txns.Keys.Assigned(me, "another"), mine, 11),
		jobtest.KeyOf(t, txns.Keys.Assigned(me, "y"), open, 12),
		{Key: []byte(txns.Keys.Assigned(me, "junk")), Value: []byte("junk"), ModRevision: 13},
	}, 20)
	if kept != 0 || len(b.waiting()) != 0 || unread != 4 {
		t.Errorf("%d entries of others were taken up, %d could not be read", kept, unread)
	}
	b.Reset([]*mvccpb.KeyValue{jobtest.KeyOf(t, txns.Keys.Assigned(me, "x"), mine, 21)}, 21)
	if kept != 1 || len(b.waiting()) != 1 {
		t.Errorf("%d entries of its own were taken up, want 1", kept)
	}
	later := &inbox{
		keys: b.keys, sid: me, prefix: b.prefix, entries: map[string]*inboxEntry{}, changed: make(chan struct{}, 1),
		has: b.has, keep: b.keep, forget: b.forget, unread: b.unread,
	}
	later.Reset([]*mvccpb.KeyValue{jobtest.KeyOf(t, txns.Keys.Assigned(me, "x"), mine, 21)}, 21)
	if kept != 1 || len(later.waiting()) != 0 || later.idle() {
		t.Errorf("%d entries, of which the book has one, were taken up; %d are to be begun", kept, len(later.waiting()))
	}
}

// openServed opens a queue under a root of its own, and a session that may serve it.
func openServed(t *testing.T) (*clientv3.Client, *Queue, *coord.Session) {
	t.Helper()
	client, root := etcdtest.Shared(t).Client(t), etcdtest.Root(t)
	q, err := Open(t.Context(), client, Config{Queue: "q", Root: root})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	s, err := coord.OpenSession(t.Context(), client, coord.SessionConfig{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.WithoutCancel(t.Context())) })
	return client, q, s
}

// An assignment that is over by the time its worker begins is no attempt: what lies
// beside the job may be another job's.
func TestAnAssignmentThatIsOverIsMissed(t *testing.T) {
	_, q, s := openServed(t)
	r, _ := jobtest.In("claimed")
	r.Owner, r.OwnerRev = s.ID(), inside.Of(s).CreateRevision()
	if c, err := q.claimAssigned(t.Context(), s, job.Snapshot{Record: r, Where: job.InJobs, Rev: 7}, false); !errors.Is(err, queue.ErrMissed) {
		t.Errorf("got %v, %v for a job that is gone", c, err)
		if c != nil {
			inside.Of(s).Book().Untrack(r.Nonce)
		}
	}
}

// That a later job of the same id was closed under the same number says nothing of
// this one: after a restore, numbers come again.
func TestEndedAs(t *testing.T) {
	now := time.Now()
	ended := func(born, nonce, outcome string) *job.Record {
		return &job.Record{Born: born, Nonce: nonce, Attempts: []job.Attempt{{Token: 5, Outcome: outcome, EndedAt: now}}}
	}
	mine := ended("b", "n", job.OutcomeCompleted)
	for _, tc := range []struct {
		name           string
		now            *job.Record
		applied, known bool
	}{
		{"nothing is there", nil, false, false},
		{"a later job of the id", ended("c", "m", job.OutcomeCompleted), false, false},
		{"as we wrote it", ended("b", "n", job.OutcomeCompleted), true, true},
		{"as we wrote it, and changed since", ended("b", "m", job.OutcomeCompleted), true, true},
		{"ended by somebody else", ended("b", "m", job.OutcomeLost), false, true},
		{"the trail does not reach so far", &job.Record{Born: "b", Nonce: "m"}, false, false},
	} {
		if applied, known := endedAs(tc.now, mine); applied != tc.applied || known != tc.known {
			t.Errorf("%s: applied %t, known %t; want %t, %t", tc.name, applied, known, tc.applied, tc.known)
		}
	}
}

// What tells two jobs of one id apart is drawn anew for each.
func TestEveryJobIsBornAnew(t *testing.T) {
	a, b := job.New(job.Description{ID: "x"}, 1, time.Now()), job.New(job.Description{ID: "x"}, 2, time.Now())
	if a.Born == "" || a.Born == b.Born || a.Nonce == b.Nonce {
		t.Errorf("born %q and %q, nonces %q and %q", a.Born, b.Born, a.Nonce, b.Nonce)
	}
}

// Handlers of a session that is lost have less time than others need to count the
// loss.
func TestGraceAfterALoss(t *testing.T) {
	root := etcdtest.Root(t)
	s, err := coord.OpenSession(t.Context(), etcdtest.Shared(t).Client(t), coord.SessionConfig{Root: root, TTL: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	w, c := &Worker{cfg: WorkerConfig{Grace: 10 * time.Second}}, &Claim{session: s}
	for _, tc := range []struct {
		cause error
		want  time.Duration
	}{{coord.ErrSessionLost, time.Second}, {ErrAttemptTimeout, 10 * time.Second}} {
		if got := w.graceAfter(tc.cause, c); got != tc.want {
			t.Errorf("%v: got %v, want %v", tc.cause, got, tc.want)
		}
	}
}
