package history_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/history"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/workqueue"
)

// rec is a job's record, as far as the checker reads it.
type rec struct {
	W          string              `json:"w"`
	V          int                 `json:"v"`
	ID         string              `json:"id"`
	Born       string              `json:"born"`
	Attempt    int                 `json:"attempt,omitempty"`
	Failures   int                 `json:"failures,omitempty"`
	Losses     int                 `json:"losses,omitempty"`
	AtMostOnce bool                `json:"at_most_once,omitempty"`
	Owner      string              `json:"owner,omitempty"`
	OwnerRev   int64               `json:"owner_rev,omitempty,string"`
	Assigned   bool                `json:"assigned,omitempty"`
	Outcome    string              `json:"outcome,omitempty"`
	LogTotal   int                 `json:"attempts_total,omitempty"`
	Attempts   []workqueue.Attempt `json:"attempts,omitempty"`
}

const (
	ms  = int64(time.Millisecond)
	sec = int64(time.Second)
)

// story makes a history by hand: what etcd did, and what clients were told. Its clock
// goes on by 1 ms with each Txn and each call.
type story struct {
	keys     keyspace.Keyspace
	q        keyspace.QueueKeys
	rev, now int64
	began    int64 // before the Txn under way
	events   []history.Event
	log      history.Log
	created  map[string]int64
	jobs     map[string]rec   // the latest record of an id
	revs     map[string]int64 // its revision
	place    map[string]string
	n        int
	// twist changes the next record that is written.
	twist func(*rec)
	// answer changes the next answer.
	answer func(*history.Op)
}

func newStory(t testing.TB) *story {
	t.Helper()
	keys, err := keyspace.New("/h/")
	if err != nil {
		t.Fatal(err)
	}
	return &story{
		keys: keys, q: keys.Queue("q"), rev: 1, now: sec, created: map[string]int64{},
		jobs: map[string]rec{}, revs: map[string]int64{}, place: map[string]string{},
	}
}

func (s *story) run() history.Run {
	log := s.log
	return history.Run{Root: "/h/", Log: (&history.Log{}).Merge(&log), Events: s.events}
}

// txn begins the next revision.
func (s *story) txn() { s.rev, s.began, s.now = s.rev+1, s.now+1, s.now+ms }

func (s *story) put(key, value string, lease int64) {
	if s.created[key] == 0 {
		s.created[key] = s.rev
	}
	s.events = append(s.events, history.Event{
		Rev: s.rev, Key: key, Value: []byte(value), CreateRev: s.created[key], Lease: lease, Seen: s.now,
	})
}

func (s *story) del(key string) {
	delete(s.created, key)
	s.events = append(s.events, history.Event{Rev: s.rev, Key: key, Delete: true, Seen: s.now})
}

func (s *story) dir(place, id string) string {
	switch place {
	case "done":
		return s.q.Done(id)
	case "dead":
		return s.q.Dead(id)
	}
	return s.q.Job(id)
}

// move writes a record where it goes, in the Txn under way, and takes the old one away.
func (s *story) move(place string, r rec) {
	s.n++
	r.W, r.V = fmt.Sprintf("%016x", s.n), 1
	if s.twist != nil {
		s.twist(&r)
		s.twist = nil
	}
	b, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	lease := int64(0)
	if place == "done" {
		lease = 7
	}
	s.put(s.dir(place, r.ID), string(b), lease)
	if old := s.place[r.ID]; old != "" && old != place {
		s.del(s.dir(old, r.ID))
	}
	s.jobs[r.ID], s.revs[r.ID], s.place[r.ID] = r, s.rev, place
}

// tell records an answer.
func (s *story) tell(op history.Op) {
	s.n++
	op.N, op.Queue = int64(s.n), "q"
	if op.Proc == "" {
		op.Proc = "p"
	}
	if op.Call == 0 {
		op.Call = s.now + 1 // behind all that returned
	}
	s.now += ms
	if op.Return == 0 {
		op.Return = s.now
	}
	if op.Result == "" {
		op.Result = history.Applied
	}
	if s.answer != nil {
		s.answer(&op)
		s.answer = nil
	}
	s.log.Ops = append(s.log.Ops, op)
}

func sid(name string) string { return name + ".00000000000000aa" }

func (s *story) session(name string) {
	s.txn()
	s.put(s.keys.Session(sid(name)), `{"w":"00"}`, 3)
}

func (s *story) lose(name string) {
	s.txn()
	s.del(s.keys.Session(sid(name)))
}

func (s *story) enqueue(id string) {
	s.txn()
	r := rec{ID: id, Born: fmt.Sprintf("born%d", s.rev)}
	if old, ok := s.jobs[id]; ok {
		r.Attempt, r.LogTotal, r.Attempts = old.Attempt, old.LogTotal, old.Attempts
	}
	s.move("jobs", r)
	s.tell(history.Op{Verb: history.Enqueue, ID: id, Born: r.Born, Revision: s.rev, Call: s.began})
}

// claim gives a job to a session, an orphan too: then the loss is in the trail.
func (s *story) claim(id, name string) {
	s.txn()
	r := s.jobs[id]
	if r.Owner != "" {
		s.log1(&r, "lost")
	}
	r.Attempt, r.Owner, r.OwnerRev = r.Attempt+1, sid(name), s.created[s.keys.Session(sid(name))]
	s.move("jobs", r)
	s.tell(history.Op{Verb: history.Claim, ID: id, Born: r.Born, Token: s.rev, Revision: s.rev, Session: sid(name), Call: s.began})
}

// log1 ends the attempt of a claimed job.
func (s *story) log1(r *rec, outcome string) {
	r.LogTotal++
	r.Attempts = append(append([]workqueue.Attempt{}, r.Attempts...), workqueue.Attempt{
		Attempt: r.Attempt, Owner: r.Owner, Token: coord.Token(s.revs[r.ID]), Outcome: outcome,
	})
	r.Owner, r.OwnerRev = "", 0
}

// end closes the claim of a job: to jobs, done or dead.
func (s *story) end(id, outcome, place string, more ...func()) {
	s.txn()
	r := s.jobs[id]
	op := history.Op{
		Verb: map[string]history.Verb{
			"completed": history.Complete, "failed": history.Fail, "snoozed": history.Snooze,
			"released": history.Release, "cancelled": history.Cancel,
		}[outcome],
		ID: id, Born: r.Born, Token: s.revs[id], Session: r.Owner, Call: s.began,
	}
	s.log1(&r, outcome)
	switch {
	case outcome == "failed":
		r.Failures, r.Losses = r.Failures+1, 0
	case outcome == "snoozed":
		r.Losses = 0
	}
	switch place {
	case "done":
		r.Outcome = outcome
	case "dead":
		r.Outcome = "dead"
	}
	s.move(place, r)
	for _, f := range more {
		f()
	}
	s.tell(op)
}

// unsureEffect tells of a completion with a write of the caller's, whose outcome is
// unknown.
func (s *story) unsureEffect(id string) {
	s.tell(history.Op{Verb: history.Complete, ID: id, Token: s.revs[id], Session: sid("a"), Result: history.Unknown, Effects: map[string]string{"/caller/" + id: "v"}})
}

func (s *story) complete(id string) { s.end(id, "completed", "done") }

// work records a handler of the claim that stands, for a time.
func (s *story) work(id, proc string, from, to int64) {
	r := s.jobs[id]
	s.n++
	s.log.Works = append(s.log.Works, history.Work{
		Proc: proc, N: int64(s.n), Queue: "q", ID: id, Born: r.Born, Attempt: r.Attempt, Token: s.revs[id],
		Session: r.Owner, Start: from, End: to,
	})
}

// intervene is somebody else's change.
func (s *story) intervene(id string, v history.Verb, outcome, place string) {
	s.txn()
	r := s.jobs[id]
	if r.Owner != "" {
		s.log1(&r, outcome)
	} else {
		r.LogTotal++
		r.Attempts = append(append([]workqueue.Attempt{}, r.Attempts...), workqueue.Attempt{Outcome: outcome})
	}
	r.Attempts[len(r.Attempts)-1].Actor = "ops"
	r.Outcome = ""
	switch {
	case outcome == "requeued":
		r.Failures, r.Losses = 0, 0
	case place == "done":
		r.Outcome = outcome
	case place == "dead":
		r.Outcome = "dead"
	}
	s.move(place, r)
	s.tell(history.Op{Verb: v, ID: id, Born: r.Born, Revision: s.rev, Call: s.began})
}

// lead puts a leader.
func (s *story) lead(name string, from, to int64) {
	s.txn()
	s.put(s.keys.Root()+"elections/e/leader", fmt.Sprintf(`{"w":"%016x","owner":%q,"owner_rev":"1"}`, s.rev, sid(name)), 0)
	s.n++
	s.log.Terms = append(s.log.Terms, history.Term{Proc: name, N: int64(s.n), Election: "e", Session: sid(name), Token: s.rev, Start: from, End: to})
}
