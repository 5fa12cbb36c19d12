package workqueue

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// floor is an index as a dispatcher's mirrors feed it.
type floor struct {
	t   *testing.T
	x   *index
	rev int64
}

func newFloor(t *testing.T) *floor {
	t.Helper()
	f := &floor{t: t, x: newIndex(testTxns(t, "/t/").space, "q"), rev: 10}
	f.x.now = func() time.Time { return testNow }
	f.apply(configSink{f.x}, f.x.keys.Config(), config{Mode: ModeDispatch})
	return f
}

func (f *floor) apply(sink interface {
	Apply([]*clientv3.Event, int64)
}, key string, v any) {
	f.t.Helper()
	value, err := encodeJSON(v)
	if err != nil {
		f.t.Fatal(err)
	}
	f.rev++
	kv := &mvccpb.KeyValue{Key: []byte(key), Value: value, CreateRevision: f.rev, ModRevision: f.rev}
	sink.Apply([]*clientv3.Event{{Type: clientv3.EventTypePut, Kv: kv}}, f.rev)
}

func (f *floor) session(sid string) {
	f.t.Helper()
	f.apply(sessionSink{f.x}, f.x.space.Session(sid), struct{}{})
}

func (f *floor) registered(sid string, w workerRecord) {
	f.t.Helper()
	f.apply(workerSink{f.x}, f.x.keys.Worker(sid), w)
}

func (f *floor) worker(sid string, w workerRecord) {
	f.t.Helper()
	f.session(sid)
	f.registered(sid, w)
}

// job puts an open job, or one claimed by an owner.
func (f *floor) job(id string, change func(*record)) {
	f.t.Helper()
	r := newRecord(Params{ID: id}, 1, testNow.Add(-time.Minute))
	if change != nil {
		change(r)
	}
	f.apply(jobSink{f.x}, f.x.keys.Job(id), r)
}

func (f *floor) assign(prefetch int) (got []string) {
	f.t.Helper()
	round, _ := f.x.assignments(prefetch, time.Second)
	for _, a := range round {
		got = append(got, a.c.record.ID+">"+a.to.id)
		if a.to.rev != f.x.sessions[a.to.id] || a.registered != f.x.workers[a.to.id].rev || a.registered == 0 {
			f.t.Errorf("%s: it does not name the session and the registration that were seen: %+v", a.c.record.ID, a)
		}
	}
	return got
}

func (f *floor) want(prefetch int, want ...string) {
	f.t.Helper()
	if got := f.assign(prefetch); !slices.Equal(got, want) {
		f.t.Errorf("got %q, want %q", got, want)
	}
}

func kind(k string) func(*record) { return func(r *record) { r.Kind = k } }

func owned(sid string, change func(*record)) func(*record) {
	return func(r *record) {
		r.Owner, r.OwnerRev, r.ClaimedAt = sid, 1, testNow
		if change != nil {
			change(r)
		}
	}
}

// Jobs of a kind that nobody knows hold up none behind them, however many there are.
func TestAssignmentsPassUnknownKinds(t *testing.T) {
	f := newFloor(t)
	f.worker("w", workerRecord{Kinds: []string{"known"}, Concurrency: 1})
	for i := range dispatchBatch + 10 {
		f.job(fmt.Sprintf("u%d", i), kind("unknown"))
	}
	f.job("k", kind("known"))
	f.want(0, "k>w")
}

// Nor do suspects for which there is no worker.
func TestAssignmentsPassSuspects(t *testing.T) {
	f := newFloor(t)
	f.worker("w", workerRecord{Concurrency: 3})
	for i := range dispatchBatch + 10 {
		f.job(fmt.Sprintf("s%03d", i), func(r *record) { r.Losses = 2 })
	}
	f.job("k", nil)
	f.want(0, "s000>w", "k>w")
	// What is on its way counts: the mirror does not show it yet.
	f.want(0)
	f.job("k2", nil)
	f.want(0, "k2>w")
}

// Assignments on their way, and jobs held, take room; prefetch gives more.
func TestAssignmentsCountWhatIsHeld(t *testing.T) {
	f := newFloor(t)
	f.worker("w", workerRecord{Concurrency: 2})
	f.job("held", owned("w", nil))
	for i := range 4 {
		f.job(fmt.Sprint(i), nil)
	}
	f.want(0, "0>w")
	f.want(0)
	f.want(1, "1>w")
	f.job("0", owned("w", nil)) // the event of the assignment
	f.want(1)
	f.want(2, "2>w")
	f.job("held", nil) // given back
	f.want(2, "3>w")
}

// A worker that takes nothing more is given nothing, whatever the prefetch; nor is one
// without a session, and a session that comes behind its registration is noticed.
func TestAssignmentsToWhoTakesThem(t *testing.T) {
	f := newFloor(t)
	changed, stop := f.x.listen()
	defer stop()
	f.job("0", nil)
	f.worker("full", workerRecord{Concurrency: 0})
	f.registered("late", workerRecord{Concurrency: 1})
	f.want(9)
	<-changed
	f.session("late")
	select {
	case <-changed:
	default:
		t.Error("nobody is woken by the session of a worker that is registered")
	}
	f.want(9, "0>late")
}

// A job that came back goes to another, if there is one.
func TestAssignmentsAvoidWhoGaveBack(t *testing.T) {
	f := newFloor(t)
	returned := func(r *record) {
		r.Attempts = []Attempt{{Attempt: 1, Owner: "roomy", Outcome: outcomeReleased}}
	}
	f.worker("roomy", workerRecord{Concurrency: 9})
	f.worker("small", workerRecord{Concurrency: 1})
	f.job("0", returned)
	f.job("1", returned)
	f.want(0, "0>small", "1>roomy")
}

// In mode claim, and while the queue is paused, nothing is assigned, and nothing is
// to be waited for.
func TestAssignmentsFollowTheConfig(t *testing.T) {
	for _, c := range []config{{}, {Mode: ModeDispatch, Paused: true}} {
		f := newFloor(t)
		f.worker("w", workerRecord{Concurrency: 1})
		f.job("0", nil)
		f.job("later", func(r *record) { r.RunAt = testNow.Add(time.Hour) })
		f.apply(configSink{f.x}, f.x.keys.Config(), c)
		if round, wake := f.x.assignments(0, time.Second); len(round) > 0 || !wake.IsZero() {
			t.Errorf("%+v: got %v, wake %v", c, round, wake)
		}
	}
}

// An assignment that came to nothing is tried again after a moment, and takes no room
// meanwhile.
func TestAssignmentsThatCameToNothing(t *testing.T) {
	f := newFloor(t)
	now := testNow
	f.x.now = func() time.Time { return now }
	f.worker("w", workerRecord{Concurrency: 1})
	f.job("0", nil)
	f.job("1", nil)
	round, _ := f.x.assignments(0, time.Second)
	if len(round) != 1 {
		t.Fatalf("got %v", round)
	}
	f.x.settleEntry(round[0].c, false)
	if next, wake := f.x.assignments(0, time.Second); len(next) != 1 || next[0].c.record.ID != "1" || !wake.Equal(now.Add(retryEvery)) {
		t.Errorf("got %v, wake %v", next, wake)
	} else {
		f.x.settleEntry(next[0].c, false)
	}
	now = now.Add(retryEvery)
	f.want(0, "0>w")
}

// What the index forgets leaves nothing behind.
func TestIndexForgets(t *testing.T) {
	f := newFloor(t)
	f.worker("w", workerRecord{Concurrency: 1})
	f.job("0", nil)
	f.job("1", owned("w", nil))
	f.job("2", func(r *record) { r.RunAt = testNow.Add(time.Hour) })
	f.want(1, "0>w")
	f.x.forget()
	x := f.x
	if n := len(x.jobs) + len(x.scheduled) + len(x.ready) + len(x.byOwner) + len(x.pendingTo) + len(x.workers) + len(x.sessions); n != 0 {
		t.Errorf("%d things are left: %+v", n, x)
	}
	select {
	case <-x.emptied():
	default:
		t.Error("it does not say that it shows nothing")
	}
	if x.mode() != ModeDispatch {
		t.Error("the config is forgotten too, although its mirror goes on")
	}
	f.worker("w", workerRecord{Concurrency: 1})
	f.job("0", nil)
	f.want(0, "0>w")
}

// An assignment begins once in a process, and not beside an earlier attempt.
func TestAssignmentsBeginOnce(t *testing.T) {
	x := newFloor(t).x
	first, second := &record{ID: "j", Nonce: "1"}, &record{ID: "j", Nonce: "2"}
	try := func(r *record, wantBegan, wantHung bool) {
		t.Helper()
		if began, hung := x.begin(r); began != wantBegan || hung != wantHung {
			t.Errorf("got %v, %v", began, hung)
		}
	}
	try(first, true, false)
	try(first, false, false)
	try(second, false, false) // the answer to what was under way comes yet
	x.handles("j", 1)
	try(second, false, true)
	x.handles("j", -1)
	if !x.worksOn(first) || x.worksOn(second) {
		t.Error("it does not know what it works on")
	}
	x.leave(candidate{entry: &entry{snapshot: snapshot{record: first}}})
	try(second, true, false)
}
