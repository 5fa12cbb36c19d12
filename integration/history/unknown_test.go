package history_test

import (
	"testing"

	"github.com/leasekit/leasekit/integration/history"
)

// unknown makes the next answer one that never came.
func (s *story) unknown() {
	s.answer = func(op *history.Op) { op.Result, op.Revision, op.Return = history.Unknown, 0, history.Never }
	s.log.Marks = append(s.log.Marks, history.Mark{Kind: history.Killed, Proc: "p", At: s.now})
}

// fine are histories in which nothing is wrong, though it looks so.
var fine = []struct {
	name string
	make func(s *story)
}{
	{"unknown calls that happened", func(s *story) {
		s.session("a")
		s.unknown()
		s.enqueue("j")
		s.claim("j", "a")
		s.unknown()
		s.complete("j")
		s.unknown()
		s.intervene("j", history.Requeue, "requeued", "jobs")
		s.unknown()
		s.intervene("j", history.Cancel, "cancelled", "done")
	}},
	{"unknown calls that did not happen", func(s *story) {
		s.claimed("j")
		for _, v := range []history.Verb{history.Complete, history.Fail, history.Close, history.Checkpoint} {
			s.unknown()
			s.tell(history.Op{Verb: v, ID: "j", Token: s.revs["j"], Session: sid("a")})
		}
		for _, v := range []history.Verb{history.Enqueue, history.Cancel, history.Requeue, history.Break, history.Bury} {
			s.unknown()
			s.tell(history.Op{Verb: v, ID: "j"})
		}
		s.unknown()
		s.tell(history.Op{Verb: history.Enqueue, ID: "never"})
	}},
	{"an unknown enqueue that happens after its answer", func(s *story) {
		s.tell(history.Op{Verb: history.Enqueue, ID: "j", Result: history.Unknown})
		s.tell(history.Op{Verb: history.Cancel, ID: "j", Result: history.Refused, Why: history.NotFound})
		s.enqueue("j")
		s.log.Ops = s.log.Ops[:len(s.log.Ops)-1]
		s.intervene("j", history.Cancel, "cancelled", "done")
	}},
	{"an unknown completion with its effect", func(s *story) {
		s.claimed("j")
		s.answer = func(op *history.Op) {
			op.Effects = map[string]string{"/caller/j": "v"}
			op.Result = history.Unknown
		}
		s.end("j", "completed", "done", func() { s.put("/caller/j", "v", 0) })
	}},
	{"an unknown completion and neither it nor its effect", func(s *story) {
		s.claimed("j")
		s.tell(history.Op{Verb: history.Complete, ID: "j", Token: s.revs["j"], Session: sid("a"), Result: history.Unknown, Effects: map[string]string{"/caller/j": "v"}})
	}},
	{"an unknown completion with an effect, and an accepted one without it", func(s *story) {
		s.claimed("j")
		s.unsureEffect("j")
		s.complete("j")
	}},
	{"two unknown completions, and the one without an effect happened", func(s *story) {
		s.claimed("j")
		s.unsureEffect("j")
		s.answer = func(op *history.Op) { op.Result = history.Unknown }
		s.complete("j")
	}},
	{"two unknown completions, and the one with an effect happened", func(s *story) {
		s.claimed("j")
		s.unsureEffect("j")
		s.answer = func(op *history.Op) { op.Result = history.Unknown }
		s.end("j", "completed", "done", func() { s.put("/caller/j", "v", 0) })
	}},
	{"a reclaim that nobody recorded, behind a closing write that did not come", func(s *story) {
		s.claimed("j")
		s.tell(history.Op{Verb: history.Close, ID: "j", Token: s.revs["j"], Session: sid("a"), Result: history.Unknown})
		s.lose("a")
		s.session("b")
		s.claim("j", "b")
		s.log.Ops = s.log.Ops[:len(s.log.Ops)-1]
		s.end("j", "released", "jobs")
		s.log.Ops = s.log.Ops[:len(s.log.Ops)-1]
		s.claim("j", "b")
		s.complete("j")
	}},
	{"a closing write of which only its beginning is known", func(s *story) {
		s.claimed("j")
		s.answer = func(op *history.Op) { op.Verb, op.Result = history.Close, history.Unknown }
		s.end("j", "failed", "jobs")
	}},
	{"a late result that was refused", func(s *story) {
		s.claimed("j")
		token := s.revs["j"]
		s.lose("a")
		s.session("b")
		s.claim("j", "b")
		s.tell(history.Op{Verb: history.Complete, ID: "j", Token: token, Session: sid("a"), Result: history.Refused, Why: history.Fenced})
		s.complete("j")
	}},
	{"an enqueue that met a job", func(s *story) {
		s.enqueue("j")
		s.tell(history.Op{Verb: history.Enqueue, ID: "j", Result: history.Refused, Why: history.Exists})
	}},
	{"a stray that its worker released", func(s *story) {
		s.claimed("j")
		s.end("j", "released", "jobs")
		s.log.Ops = s.log.Ops[:len(s.log.Ops)-1]
	}},
	{"handlers that overlap while one is paused, or deaf, or killed", func(s *story) {
		for _, id := range []string{"paused", "deaf", "killed", "broken"} {
			s.claimed(id)
			at := s.now
			s.work(id, id, at, at+500*ms)
			w := &s.log.Works[len(s.log.Works)-1]
			switch id {
			case "paused":
				s.log.Marks = append(s.log.Marks, history.Mark{Kind: history.Paused, Proc: id, At: at}, history.Mark{Kind: history.Resumed, Proc: id, At: at + 400*ms})
			case "deaf":
				w.Deaf = true
			case "killed":
				w.End = history.Never
				s.log.Marks = append(s.log.Marks, history.Mark{Kind: history.Killed, Proc: id, At: at + ms})
			}
			if id == "broken" {
				s.intervene(id, history.Break, "broken", "jobs")
			} else {
				s.lose("a")
			}
			s.session("b")
			s.claim(id, "b")
			s.work(id, "x", at+200*ms, at+600*ms)
			s.complete(id)
			s.lose("b")
		}
	}},
	{"an orphan that stands during an outage, and while the queue is paused", func(s *story) {
		s.claimed("j")
		s.lose("a")
		s.log.Marks = append(s.log.Marks, history.Mark{Kind: history.Outage, At: s.now}, history.Mark{Kind: history.Restored, At: s.now + 20*sec})
		s.now += 21 * sec
		s.txn()
		s.put(s.q.Config(), `{"w":"1","paused":true}`, 0)
		s.now += 20 * sec
		s.txn()
		s.put(s.q.Config(), `{"w":"2"}`, 0)
		s.session("b")
		s.claim("j", "b")
	}},
	{"a late call of a process that was paused", func(s *story) {
		s.log.Marks = append(s.log.Marks, history.Mark{Kind: history.Paused, Proc: "p", At: s.now + ms}, history.Mark{Kind: history.Resumed, Proc: "p", At: s.now + 9*sec})
		s.answer = func(op *history.Op) { op.Deadline, op.Return = op.Call+ms, op.Call+10*sec }
		s.enqueue("j")
	}},
	{"what nobody can read, and what somebody makes of it", func(s *story) {
		s.txn()
		s.put(s.q.Job("foreign"), "{", 0)
		s.place["foreign"] = "jobs"
		s.txn()
		s.move("dead", rec{ID: "foreign", Born: "b", Outcome: "dead"})
		s.txn()
		s.put("/h/queues/q/jobs/zz/x", "not ours", 0)
	}},
}

func TestUnknownsAndExcusesPass(t *testing.T) {
	for _, f := range fine {
		t.Run(f.name, func(t *testing.T) {
			s := newStory(t)
			f.make(s)
			if err := history.Check(s.run(), bounds).Err(); err != nil {
				t.Error(err)
			}
			if err := history.CheckLinearizable(s.run(), history.LinearConfig{Dir: t.TempDir()}); err != nil {
				t.Error(err)
			}
		})
	}
}

// Without a record of all clients, what nobody asked for is accepted.
func TestPartialHistoriesPass(t *testing.T) {
	s := newStory(t)
	s.claimed("j")
	s.complete("j")
	run := s.run()
	run.Log = nil
	if history.Check(run, bounds).Err() == nil {
		t.Error("a history that nobody asked for passes")
	}
	run.Partial = true
	if err := history.Check(run, bounds).Err(); err != nil {
		t.Error(err)
	}
}
