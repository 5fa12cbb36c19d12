package history_test

import (
	"bytes"
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
	s.end("done", "failed", "jobs")
	s.intervene("done", history.Requeue, "requeued", "jobs") // while it waits for its next attempt
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
	// Its owner and somebody else cancel one job at once.
	s.enqueue("twice")
	s.claim("twice", "b")
	token := s.revs["twice"]
	s.intervene("twice", history.Cancel, "cancelled", "done")
	s.tell(history.Op{Verb: history.Cancel, ID: "twice", Born: s.jobs["twice"].Born, Token: token, Session: sid("b"), Result: history.Refused, Why: history.Fenced})
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
	if got := r.Stats; got.Jobs != 7 || got.Done != 1 || got.Cancelled != 2 || got.Dead != 1 || got.Live != 1 || got.Expired != 1 || got.Replaced != 1 {
		t.Errorf("got %v", got)
	}
	if err := history.CheckLinearizable(s.run(), history.LinearConfig{Dir: t.TempDir()}); err != nil {
		t.Error(err)
	}
	if story := r.Story("q", "lost"); !strings.Contains(story, "reclaim at revision") || !strings.Contains(story, "broken") {
		t.Errorf("the story leaves something out:\n%s", story)
	}
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
