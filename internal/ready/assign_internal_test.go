package ready

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/job/jobtest"
)

// floor is an index as a dispatcher's mirrors feed it.
type floor struct {
	t   *testing.T
	x   *Index
	rev int64
}

func newFloor(t *testing.T) *floor {
	t.Helper()
	f := &floor{t: t, x: NewIndex(jobtest.Txns(t, "/t/").Space, "q"), rev: 10}
	f.x.now = func() time.Time { return jobtest.Now }
	f.apply(configSink{f.x}, f.x.keys.Config(), job.QueueConfig{Mode: job.ModeDispatch})
	return f
}

func (f *floor) apply(sink interface {
	Apply([]*clientv3.Event, int64)
}, key string, v any) {
	f.t.Helper()
	value, err := job.EncodeJSON(v)
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

func (f *floor) registered(sid string, w job.WorkerRecord) {
	f.t.Helper()
	f.apply(workerSink{f.x}, f.x.keys.Worker(sid), w)
}

func (f *floor) worker(sid string, w job.WorkerRecord) {
	f.t.Helper()
	f.session(sid)
	f.registered(sid, w)
}

// job puts an open job, or one claimed by an owner.
func (f *floor) job(id string, change func(*job.Record)) {
	f.t.Helper()
	r := job.New(job.Description{ID: id}, 1, jobtest.Now.Add(-time.Minute))
	if change != nil {
		change(r)
	}
	f.apply(jobSink{f.x}, f.x.keys.Job(id), r)
}

func (f *floor) assign(prefetch int) (got []string) {
	f.t.Helper()
	round, _ := f.x.Assignments(prefetch, time.Second)
	for _, a := range round {
		got = append(got, a.Candidate.Record.ID+">"+a.To.ID)
		if a.To.Rev != f.x.sessions[a.To.ID] || a.Registered != f.x.workers[a.To.ID].rev || a.Registered == 0 {
			f.t.Errorf("%s: it does not name the session and the registration that were seen: %+v", a.Candidate.Record.ID, a)
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

func kind(k string) func(*job.Record) { return func(r *job.Record) { r.Kind = k } }

func owned(sid string, change func(*job.Record)) func(*job.Record) {
	return func(r *job.Record) {
		r.Owner, r.OwnerRev, r.ClaimedAt = sid, 1, jobtest.Now
		if change != nil {
			change(r)
		}
	}
}

// Jobs of a kind that nobody knows hold up none behind them, however many there are.
func TestAssignmentsPassUnknownKinds(t *testing.T) {
	f := newFloor(t)
	f.worker("w", job.WorkerRecord{Kinds: []string{"known"}, Concurrency: 1})
	for i := range dispatchBatch + 10 {
		f.job(fmt.Sprintf("u%d", i), kind("unknown"))
	}
	f.job("k", kind("known"))
	f.want(0, "k>w")
}

// Nor do suspects for which there is no worker.
func TestAssignmentsPassSuspects(t *testing.T) {
	f := newFloor(t)
	f.worker("w", job.WorkerRecord{Concurrency: 3})
	for i := range dispatchBatch + 10 {
		f.job(fmt.Sprintf("s%03d", i), func(r *job.Record) { r.Losses = 2 })
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
	f.worker("w", job.WorkerRecord{Concurrency: 2})
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
	changed, stop := f.x.Listen()
	defer stop()
	f.job("0", nil)
	f.worker("full", job.WorkerRecord{Concurrency: 0})
	f.registered("late", job.WorkerRecord{Concurrency: 1})
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
	returned := func(r *job.Record) {
		r.Attempts = []job.Attempt{{Attempt: 1, Owner: "roomy", Outcome: job.OutcomeReleased}}
	}
	f.worker("roomy", job.WorkerRecord{Concurrency: 9})
	f.worker("small", job.WorkerRecord{Concurrency: 1})
	f.job("0", returned)
	f.job("1", returned)
	f.want(0, "0>small", "1>roomy")
}

// In mode claim, and while the queue is paused, nothing is assigned, and nothing is
// to be waited for.
func TestAssignmentsFollowTheConfig(t *testing.T) {
	for _, c := range []job.QueueConfig{{}, {Mode: job.ModeDispatch, Paused: true}} {
		f := newFloor(t)
		f.worker("w", job.WorkerRecord{Concurrency: 1})
		f.job("0", nil)
		f.job("later", func(r *job.Record) { r.RunAt = jobtest.Now.Add(time.Hour) })
		f.apply(configSink{f.x}, f.x.keys.Config(), c)
		if round, wake := f.x.Assignments(0, time.Second); len(round) > 0 || !wake.IsZero() {
			t.Errorf("%+v: got %v, wake %v", c, round, wake)
		}
	}
}

// An assignment that came to nothing is tried again after a moment, and takes no room
// meanwhile.
func TestAssignmentsThatCameToNothing(t *testing.T) {
	f := newFloor(t)
	now := jobtest.Now
	f.x.now = func() time.Time { return now }
	f.worker("w", job.WorkerRecord{Concurrency: 1})
	f.job("0", nil)
	f.job("1", nil)
	round, _ := f.x.Assignments(0, time.Second)
	if len(round) != 1 {
		t.Fatalf("got %v", round)
	}
	f.x.Settle(round[0].Candidate, false)
	if next, wake := f.x.Assignments(0, time.Second); len(next) != 1 || next[0].Candidate.Record.ID != "1" || !wake.Equal(now.Add(RetryEvery)) {
		t.Errorf("got %v, wake %v", next, wake)
	} else {
		f.x.Settle(next[0].Candidate, false)
	}
	now = now.Add(RetryEvery)
	f.want(0, "0>w")
}

// What the index forgets leaves nothing behind.
func TestIndexForgets(t *testing.T) {
	f := newFloor(t)
	f.worker("w", job.WorkerRecord{Concurrency: 1})
	f.job("0", nil)
	f.job("1", owned("w", nil))
	f.job("2", func(r *job.Record) { r.RunAt = jobtest.Now.Add(time.Hour) })
	f.want(1, "0>w")
	f.x.Forget()
	x := f.x
	if n := len(x.jobs) + len(x.scheduled) + len(x.ready) + len(x.byOwner) + len(x.pendingTo) + len(x.workers) + len(x.sessions); n != 0 {
		t.Errorf("%d things are left: %+v", n, x)
	}
	select {
	case <-x.Emptied():
	default:
		t.Error("it does not say that it shows nothing")
	}
	if x.Mode() != job.ModeDispatch {
		t.Error("the config is forgotten too, although its mirror goes on")
	}
	f.worker("w", job.WorkerRecord{Concurrency: 1})
	f.job("0", nil)
	f.want(0, "0>w")
}

// An assignment begins once in a process, and not beside an earlier attempt.
func TestAssignmentsBeginOnce(t *testing.T) {
	x := newFloor(t).x
	first, second := &job.Record{ID: "j", Nonce: "1"}, &job.Record{ID: "j", Nonce: "2"}
	try := func(r *job.Record, wantBegan, wantHung bool) {
		t.Helper()
		if began, hung := x.Begin(r); began != wantBegan || hung != wantHung {
			t.Errorf("got %v, %v", began, hung)
		}
	}
	try(first, true, false)
	try(first, false, false)
	try(second, false, false) // the answer to what was under way comes yet
	x.Handles("j", 1)
	try(second, false, true)
	x.Handles("j", -1)
	if !x.WorksOn(first) || x.WorksOn(second) {
		t.Error("it does not know what it works on")
	}
	x.Leave(Candidate{entry: &entry{Snapshot: job.Snapshot{Record: first}}})
	try(second, true, false)
}
