package history_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasekit/leasekit/integration/history"
)

var bounds = history.Bounds{Reclaim: 10 * time.Second, Overlap: 100 * time.Millisecond, Return: time.Second}

// normal is a history in which all that may happen does.
func normal(s *story) {
	s.session("a")
	s.session("b")
	s.enqueue("done")
	s.claim("done", "a")
	s.work("done", "a", s.now, s.now+ms)
	s.complete("done")
	s.enqueue("done") // again, with the old one's trail
	s.claim("done", "b")
	s.end("done", "failed", "jobs")
	s.claim("done", "b")
	s.end("done", "snoozed", "jobs")
	s.claim("done", "b")
	s.end("done", "released", "jobs")
	s.claim("done", "b")
	s.end("done", "failed", "dead")
	s.intervene("done", history.Requeue, "requeued", "jobs")
	s.claim("done", "b")
	s.complete("done")
	s.intervene("done", history.Requeue, "requeued", "jobs")
	s.claim("done", "b")
	s.complete("done") // a second result, after a requeue

	s.enqueue("lost")
	s.claim("lost", "a")
	s.lose("a")
	s.claim("lost", "b")
	s.intervene("lost", history.Break, "broken", "jobs")
	s.intervene("lost", history.Cancel, "cancelled", "done")
	s.enqueue("buried")
	s.intervene("buried", history.Bury, "buried", "dead")
	s.enqueue("expired")
	s.claim("expired", "b")
	s.complete("expired")
	s.txn()
	s.del(s.q.Done("expired"))
	s.lead("a", s.now, s.now+ms)
	s.now += 2 * ms
	s.lead("b", s.now, s.now+ms)
	s.enqueue("waits")
}

func TestANormalHistoryPasses(t *testing.T) {
	s := newStory(t)
	normal(s)
	r := history.Check(s.run(), bounds)
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	if got := r.Stats; got.Jobs != 6 || got.Done != 1 || got.Cancelled != 1 || got.Dead != 1 || got.Live != 1 || got.Expired != 1 || got.Replaced != 1 {
		t.Errorf("got %v", got)
	}
	if err := history.CheckLinearizable(s.run(), history.LinearConfig{Dir: t.TempDir()}); err != nil {
		t.Error(err)
	}
	if story := r.Story("q", "lost"); !strings.Contains(story, "reclaim at revision") || !strings.Contains(story, "broken") {
		t.Errorf("the story leaves something out:\n%s", story)
	}
}

// broken are histories in which one promise is broken, with the invariant that says
// so.
var broken = []struct {
	name, invariant string
	make            func(s *story)
}{
	{"two results", "I1", func(s *story) {
		s.claimed("j")
		s.complete("j")
		s.place["j"] = "" // the record of done stays while it comes back
		s.txn()
		r := s.jobs["j"]
		s.move("jobs", r)
		s.claim("j", "a")
		s.complete("j")
	}},
	{"two clients were told that theirs was accepted", "I1", func(s *story) {
		s.claimed("j")
		s.complete("j")
		s.tell(history.Op{Verb: history.Complete, ID: "j", Born: s.jobs["j"].Born, Token: 2, Session: sid("a")})
	}},
	{"a result under a superseded token", "I2", func(s *story) {
		s.claimed("j")
		s.twist = func(r *rec) { r.Attempts[0].Token-- }
		s.complete("j")
	}},
	{"a result of an owner that lost the claim", "I2", func(s *story) {
		s.claimed("j")
		s.twist = func(r *rec) { r.Attempts[0].Owner = sid("z") }
		s.complete("j")
	}},
	{"a result without a claim", "I2", func(s *story) {
		s.enqueue("j")
		s.txn()
		r := s.jobs["j"]
		r.Outcome = "completed"
		s.move("done", r)
	}},
	{"a client was told that a late result was accepted", "I2", func(s *story) {
		s.claimed("j")
		token := s.revs["j"]
		s.lose("a")
		s.session("b")
		s.claim("j", "b")
		s.tell(history.Op{Verb: history.Complete, ID: "j", Born: s.jobs["j"].Born, Token: token - 1, Session: sid("a")})
	}},
	{"a lost job", "I3", func(s *story) {
		s.enqueue("j")
		s.txn()
		s.del(s.q.Job("j"))
	}},
	{"a dead letter that vanished", "I3", func(s *story) {
		s.claimed("j")
		s.end("j", "failed", "dead")
		s.txn()
		s.del(s.q.Dead("j"))
	}},
	{"a job in two places", "I3", func(s *story) {
		s.claimed("j")
		s.place["j"] = ""
		s.complete("j")
	}},
	{"a record became unreadable", "I3", func(s *story) {
		s.enqueue("j")
		s.txn()
		s.put(s.q.Job("j"), "{", 0)
	}},
	{"a claim for a session that is gone", "I4", func(s *story) {
		s.session("a")
		s.enqueue("j")
		rev := s.created[s.keys.Session(sid("a"))]
		s.lose("a")
		s.twist = func(r *rec) { r.OwnerRev = rev }
		s.claim("j", "a")
	}},
	{"a claim taken from a session that lives", "I4", func(s *story) {
		s.claimed("j")
		s.session("b")
		s.claim("j", "b")
	}},
	{"an orphan that stands too long", "I4", func(s *story) {
		s.claimed("j")
		s.lose("a")
		s.now += 11 * sec
		s.session("b")
		s.claim("j", "b")
	}},
	{"an orphan that stands for ever", "I4", func(s *story) {
		s.claimed("j")
		s.lose("a")
		s.now += 11 * sec
		s.session("b")
	}},
	{"a skipped ordinal", "I5", func(s *story) {
		s.twist = nil
		s.session("a")
		s.enqueue("j")
		s.twist = func(r *rec) { r.Attempt++ }
		s.claim("j", "a")
	}},
	{"a failure that did not count", "I5", func(s *story) {
		s.claimed("j")
		s.twist = func(r *rec) { r.Failures-- }
		s.end("j", "failed", "jobs")
	}},
	{"a loss that counted without saying so", "I5", func(s *story) {
		s.claimed("j")
		s.lose("a")
		s.session("b")
		s.twist = func(r *rec) { r.Losses++ }
		s.claim("j", "b")
	}},
	{"an attempt without an entry in the trail", "transition", func(s *story) {
		s.claimed("j")
		s.twist = func(r *rec) { r.Attempts, r.LogTotal = nil, 0 }
		s.complete("j")
	}},
	{"a trail that forgot its past", "I5", func(s *story) {
		s.claimed("j")
		s.end("j", "failed", "jobs")
		s.claim("j", "a")
		s.twist = func(r *rec) { r.Attempts = r.Attempts[1:] }
		s.complete("j")
	}},
	{"a trail that was rewritten by a claim", "I5", func(s *story) {
		s.claimed("j")
		s.end("j", "failed", "jobs")
		s.twist = func(r *rec) { r.Attempts = nil }
		s.claim("j", "a")
	}},
	{"a job that begins with a trail", "I5", func(s *story) {
		s.twist = func(r *rec) { r.Attempt = 3 }
		s.enqueue("j")
	}},
	{"handlers that overlap", "I6", func(s *story) {
		s.claimed("j")
		at := s.now
		s.work("j", "a", at, at+500*ms)
		s.lose("a")
		s.session("b")
		s.claim("j", "b")
		s.work("j", "b", at+200*ms, at+600*ms)
	}},
	{"a claim that was worked twice", "I6", func(s *story) {
		s.claimed("j")
		s.work("j", "a", s.now, s.now+ms)
		s.work("j", "a", s.now+2*ms, s.now+3*ms)
	}},
	{"a call that returned long after its context", "I7", func(s *story) {
		s.answer = func(op *history.Op) { op.Deadline, op.Return = op.Call+ms, op.Call+5*sec }
		s.enqueue("j")
	}},
	{"a call that never returned", "I7", func(s *story) {
		s.answer = func(op *history.Op) { op.Result, op.Return = history.Unknown, history.Never }
		s.enqueue("j")
	}},
	{"a leader that etcd does not know", "I10", func(s *story) {
		s.lead("a", s.now, s.now+ms)
		s.log.Terms[0].Token++
	}},
	{"leaders that overlap", "I10", func(s *story) {
		at := s.now
		s.lead("a", at, at+sec)
		s.lead("b", at+500*ms, at+2*sec)
	}},
	{"two leaders with one token", "I10", func(s *story) {
		s.lead("a", s.now, s.now+ms)
		s.log.Terms = append(s.log.Terms, s.log.Terms[0])
	}},
	{"a leader's write that was accepted behind its term", "I10", func(s *story) {
		s.lead("a", s.now, s.now+ms)
		token := s.rev
		s.now += 2 * ms
		s.lead("b", s.now, s.now+ms)
		s.txn()
		s.put("/caller/x", "v", 0)
		s.tell(history.Op{Verb: history.Commit, Key: "/caller/x", Token: token, Session: sid("a"), Revision: s.rev})
		s.log.Ops[len(s.log.Ops)-1].Queue = "e"
	}},
	{"a leader's write that was lost", "I10", func(s *story) {
		s.lead("a", s.now, s.now+ms)
		token := s.rev
		s.txn()
		s.put("/caller/x", "v", 0)
		s.tell(history.Op{Verb: history.Commit, Key: "/caller/y", Token: token, Session: sid("a"), Revision: s.rev})
		s.log.Ops[len(s.log.Ops)-1].Queue = "e"
	}},
	{"applied, and nothing happened", "answers", func(s *story) {
		s.enqueue("j")
		s.tell(history.Op{Verb: history.Cancel, ID: "j", Revision: s.rev + 1})
	}},
	{"applied, and it happened before", "answers", func(s *story) {
		s.answer = func(op *history.Op) { op.Call = op.Return }
		s.enqueue("j")
	}},
	{"applied, and something else happened", "answers", func(s *story) {
		s.claimed("j")
		s.answer = func(op *history.Op) { op.Verb = history.Complete }
		s.end("j", "failed", "jobs")
	}},
	{"refused, and it happened", "answers", func(s *story) {
		s.claimed("j")
		s.answer = func(op *history.Op) { op.Result, op.Why = history.Refused, history.Fenced }
		s.complete("j")
	}},
	{"not applied, and it happened", "answers", func(s *story) {
		s.claimed("j")
		s.answer = func(op *history.Op) { op.Result = history.NotApplied }
		s.end("j", "failed", "jobs")
	}},
	{"refused, and the claim stands", "answers", func(s *story) {
		s.claimed("j")
		s.tell(history.Op{Verb: history.Complete, ID: "j", Token: s.revs["j"], Session: sid("a"), Result: history.Refused, Why: history.Fenced})
	}},
	{"a claim that was not made", "answers", func(s *story) {
		s.enqueue("j")
		s.tell(history.Op{Verb: history.Claim, ID: "j", Token: s.rev, Session: sid("a")})
	}},
	{"somebody else's claim", "answers", func(s *story) {
		s.session("a")
		s.enqueue("j")
		s.answer = func(op *history.Op) { op.Session = sid("b") }
		s.claim("j", "a")
	}},
	{"a checkpoint that is not there", "answers", func(s *story) {
		s.claimed("j")
		s.tell(history.Op{Verb: history.Checkpoint, ID: "j", Token: s.revs["j"], Session: sid("a")})
	}},
	{"a job enqueued twice by one call", "answers", func(s *story) {
		s.claimed("j")
		s.complete("j")
		s.enqueue("j")
		s.log.Ops = s.log.Ops[:len(s.log.Ops)-1]
	}},
	{"a result that nobody handed in", "answers", func(s *story) {
		s.claimed("j")
		s.complete("j")
		s.log.Ops = s.log.Ops[:len(s.log.Ops)-1]
	}},
	{"an effect twice", "effects", func(s *story) {
		s.claimed("j")
		s.answer = func(op *history.Op) { op.Effects = map[string]string{"/caller/j": "v"} }
		s.end("j", "completed", "done", func() { s.put("/caller/j", "v", 0) })
		s.txn()
		s.put("/caller/j", "v", 0)
	}},
	{"a completion without its effect", "effects", func(s *story) {
		s.claimed("j")
		s.answer = func(op *history.Op) { op.Effects = map[string]string{"/caller/j": "v"} }
		s.complete("j")
	}},
	{"an effect of a refused completion", "effects", func(s *story) {
		s.claimed("j")
		token := s.revs["j"]
		s.intervene("j", history.Cancel, "cancelled", "done")
		s.txn()
		s.put("/caller/j", "v", 0)
		s.tell(history.Op{Verb: history.Complete, ID: "j", Token: token, Session: sid("a"), Result: history.Refused, Why: history.Fenced, Effects: map[string]string{"/caller/j": "v"}})
	}},
	{"a claim although the queue is paused", "transition", func(s *story) {
		s.session("a")
		s.enqueue("j")
		s.txn()
		s.put(s.q.Config(), `{"w":"1","paused":true}`, 0)
		s.claim("j", "a")
	}},
	{"a job that appears in done", "transition", func(s *story) {
		s.txn()
		s.move("done", rec{ID: "j", Born: "b", Outcome: "completed"})
	}},
	{"another job in its place", "transition", func(s *story) {
		s.enqueue("j")
		s.twist = func(r *rec) { r.Born = "other" }
		s.session("a")
		s.claim("j", "a")
	}},
	{"a job that arrives without a trail", "I5", func(s *story) {
		s.enqueue("j")
		s.txn()
		s.del(s.q.Job("j"))
		b, _ := json.Marshal(s.jobs["j"])
		s.put(s.keys.Queue("other").Job("j"), string(b), 0)
		s.tell(history.Op{Verb: history.Move, ID: "j", Revision: s.rev, Call: s.began})
	}},
	{"an at-most-once job that runs again", "transition", func(s *story) {
		s.session("a")
		s.twist = func(r *rec) { r.AtMostOnce = true }
		s.enqueue("j")
		s.jobs["j"] = func() rec { r := s.jobs["j"]; r.AtMostOnce = true; return r }()
		s.claim("j", "a")
		s.lose("a")
		s.session("b")
		s.claim("j", "b")
	}},
}

// claimed is a job that session a has claimed.
func (s *story) claimed(id string) {
	s.session("a")
	s.enqueue(id)
	s.claim(id, "a")
}

func TestBrokenHistoriesAreFlagged(t *testing.T) {
	flagged := map[string]bool{}
	for _, b := range broken {
		t.Run(b.name, func(t *testing.T) {
			s := newStory(t)
			b.make(s)
			got := history.Check(s.run(), bounds)
			if !slices.ContainsFunc(got.Violations, func(v history.Violation) bool { return v.Invariant == b.invariant }) {
				t.Errorf("not flagged as %s: %v", b.invariant, got.Violations)
			}
			if got.Err() == nil {
				t.Error("no error")
			}
			flagged[b.invariant] = true
		})
	}
	want := []string{"I1", "I10", "I2", "I3", "I4", "I5", "I6", "I7", "answers", "effects", "transition"}
	if got := slices.Sorted(maps.Keys(flagged)); !slices.Equal(got, want) {
		t.Errorf("broken histories for %v, want %v", got, want)
	}
}

// The final state must be what the events lead to.
func TestTheFinalStateIsCompared(t *testing.T) {
	s := newStory(t)
	normal(s)
	final := func() *history.Final {
		f := &history.Final{Revision: s.rev, Prefixes: []string{"/h/"}, KVs: map[string]history.KV{}}
		for _, ev := range s.events {
			if ev.Delete {
				delete(f.KVs, ev.Key)
			} else {
				f.KVs[ev.Key] = history.KV{Value: ev.Value, ModRev: ev.Rev, CreateRev: ev.CreateRev, Lease: ev.Lease}
			}
		}
		return f
	}
	check := func(f *history.Final) []history.Violation {
		run := s.run()
		run.Final = f
		return history.Check(run, bounds).Violations
	}
	if got := check(final()); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	job := s.q.Job("waits")
	for name, spoil := range map[string]func(f *history.Final){
		"a key is gone": func(f *history.Final) { delete(f.KVs, job) },
		"a key is new":  func(f *history.Final) { f.KVs[s.q.Job("new")] = history.KV{ModRev: 1} },
		"a value is different": func(f *history.Final) {
			f.KVs[job] = history.KV{Value: bytes.ToUpper(f.KVs[job].Value), ModRev: f.KVs[job].ModRev}
		},
	} {
		f := final()
		spoil(f)
		if len(check(f)) == 0 {
			t.Errorf("not flagged: %s", name)
		}
	}
	s.txn()
	s.put(s.q.Payload("nobody"), "x", 0)
	s.put(s.q.Assigned(sid("a"), "waits"), "x", 0)
	got := check(final())
	if len(got) != 2 || got[0].Invariant != "leftovers" || got[1].Invariant != "leftovers" {
		t.Errorf("a payload and an inbox entry that nobody needs: got %v", got)
	}
}
