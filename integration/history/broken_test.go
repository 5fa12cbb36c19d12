package history_test

import (
	"encoding/json"

	"github.com/leasekit/leasekit/integration/history"
)

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
	{"an effect that another completion happened without", "effects", func(s *story) {
		s.claimed("j")
		s.unsureEffect("j")
		s.end("j", "completed", "done", func() { s.put("/caller/j", "v", 0) })
	}},
	{"an effect of one of two unknown completions, and at another time", "effects", func(s *story) {
		s.claimed("j")
		s.unsureEffect("j")
		s.answer = func(op *history.Op) { op.Result = history.Unknown }
		s.complete("j")
		s.txn()
		s.put("/caller/j", "v", 0)
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
	{"a job that begins with an owner", "transition", func(s *story) {
		s.session("a")
		s.twist = func(r *rec) { r.Owner, r.OwnerRev = sid("a"), 2 }
		s.enqueue("j")
	}},
	{"a job that begins with failures", "I5", func(s *story) {
		s.twist = func(r *rec) { r.Failures = 1 }
		s.enqueue("j")
	}},
	{"a job that forgets the trail of the one before", "I5", func(s *story) {
		s.claimed("j")
		s.complete("j")
		s.twist = func(r *rec) { r.LogTotal, r.Attempts = 0, nil }
		s.enqueue("j")
	}},
	{"a claim that changes counters", "I5", func(s *story) {
		s.session("a")
		s.enqueue("j")
		s.twist = func(r *rec) { r.Failures = 1 }
		s.claim("j", "a")
	}},
	{"an ending that changes the ordinal", "I5", func(s *story) {
		s.claimed("j")
		s.twist = func(r *rec) { r.Attempt++ }
		s.complete("j")
	}},
	{"a failure that keeps its owner", "transition", func(s *story) {
		s.claimed("j")
		s.twist = func(r *rec) { r.Owner, r.OwnerRev = sid("a"), 2 }
		s.end("j", "failed", "jobs")
	}},
	{"a completion that led to dead", "transition", func(s *story) {
		s.claimed("j")
		s.end("j", "completed", "dead")
	}},
	{"a failure that led to done", "transition", func(s *story) {
		s.claimed("j")
		s.end("j", "failed", "done")
	}},
	{"a dead letter with a result", "transition", func(s *story) {
		s.claimed("j")
		s.twist = func(r *rec) { r.Outcome = "completed" }
		s.end("j", "failed", "dead")
	}},
	{"a requeue that keeps the counters", "I5", func(s *story) {
		s.claimed("j")
		s.end("j", "failed", "dead")
		s.twist = func(r *rec) { r.Failures = 1 }
		s.intervene("j", history.Requeue, "requeued", "jobs")
	}},
	{"a requeue with an owner", "transition", func(s *story) {
		s.claimed("j")
		s.end("j", "failed", "dead")
		s.twist = func(r *rec) { r.Owner, r.OwnerRev = sid("a"), 2 }
		s.intervene("j", history.Requeue, "requeued", "jobs")
	}},
	{"a cancel of an open job that says it was an attempt", "I5", func(s *story) {
		s.enqueue("j")
		s.twist = func(r *rec) { r.Attempts[0].Attempt = 1 }
		s.intervene("j", history.Cancel, "cancelled", "done")
	}},
	{"a burial that leaves no trail", "I5", func(s *story) {
		s.enqueue("j")
		s.twist = func(r *rec) { r.LogTotal = 0 }
		s.intervene("j", history.Bury, "buried", "dead")
	}},
	{"an edit that changes the ordinal", "I5", func(s *story) {
		s.enqueue("j")
		s.twist = func(r *rec) { r.Attempt = 1 }
		s.intervene("j", history.Edit, "edited", "jobs")
	}},
	{"an open job that was rewritten", "transition", func(s *story) {
		s.enqueue("j")
		s.txn()
		s.move("jobs", s.jobs["j"])
	}},
	{"a done job that was rewritten", "transition", func(s *story) {
		s.claimed("j")
		s.complete("j")
		s.txn()
		s.move("done", s.jobs["j"])
	}},
	{"a history out of order", "I5", func(s *story) {
		s.enqueue("j")
		s.rev = 0
		s.enqueue("k")
	}},
	{"a cancel that happened twice", "answers", func(s *story) {
		s.enqueue("j")
		s.intervene("j", history.Cancel, "cancelled", "done")
		s.intervene("j", history.Requeue, "requeued", "jobs")
		s.intervene("j", history.Cancel, "cancelled", "done")
		s.log.Ops = s.log.Ops[:len(s.log.Ops)-1]
	}},
	{"a leader's write that was refused in its term", "I10", func(s *story) {
		s.lead("a", s.now, s.now+ms)
		s.tell(history.Op{Verb: history.Commit, Key: "/caller/x", Token: s.rev, Session: sid("a"), Result: history.Refused, Why: history.Fenced})
		s.log.Ops[len(s.log.Ops)-1].Queue = "e"
	}},
	{"a checkpoint refused while the claim stands", "answers", func(s *story) {
		s.claimed("j")
		s.tell(history.Op{Verb: history.Checkpoint, ID: "j", Token: s.revs["j"], Session: sid("a"), Result: history.Refused, Why: history.Fenced})
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
