package history_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/leasekit/leasekit/integration/history"
)

// Answers that no order of the calls explains. Those with a bare history have no
// events: then only what clients were told counts.
var unlinearizable = []struct {
	name string
	bare bool
	make func(s *story)
}{
	{"two results of one claim", true, func(s *story) {
		s.claimed("j")
		token := s.revs["j"]
		s.complete("j")
		s.tell(history.Op{Verb: history.Complete, ID: "j", Token: token, Session: sid("a")})
	}},
	{"a result under a superseded token", true, func(s *story) {
		s.claimed("j")
		token := s.revs["j"]
		s.lose("a")
		s.session("b")
		s.claim("j", "b")
		s.tell(history.Op{Verb: history.Complete, ID: "j", Token: token, Session: sid("a")})
	}},
	{"two enqueues of a live job", true, func(s *story) {
		s.enqueue("j")
		s.tell(history.Op{Verb: history.Enqueue, ID: "j", Revision: 9})
	}},
	{"an enqueue that met a job before there was one", true, func(s *story) {
		s.tell(history.Op{Verb: history.Enqueue, ID: "j", Result: history.Refused, Why: history.Exists})
		s.enqueue("j")
	}},
	{"tokens that fall", true, func(s *story) {
		s.claimed("j")
		s.tell(history.Op{Verb: history.Claim, ID: "j", Token: s.revs["j"] - 1, Session: sid("b")})
	}},
	{"a cancel of a job that is over", true, func(s *story) {
		s.claimed("j")
		s.complete("j")
		s.tell(history.Op{Verb: history.Cancel, ID: "j", Revision: 9})
	}},
	{"a requeue of a live job", true, func(s *story) {
		s.enqueue("j")
		s.tell(history.Op{Verb: history.Requeue, ID: "j", Revision: 9})
	}},
	{"a break of a job that nobody holds", true, func(s *story) {
		s.enqueue("j")
		s.tell(history.Op{Verb: history.Break, ID: "j", Revision: 9})
	}},
	{"a job not found that is there", true, func(s *story) {
		s.enqueue("j")
		s.tell(history.Op{Verb: history.Cancel, ID: "j", Result: history.Refused, Why: history.NotFound})
	}},
	{"a checkpoint behind the end", true, func(s *story) {
		s.claimed("j")
		token := s.revs["j"]
		s.complete("j")
		s.tell(history.Op{Verb: history.Checkpoint, ID: "j", Token: token, Session: sid("a")})
	}},
	{"a refusal while the claim stands", false, func(s *story) {
		s.claimed("j")
		s.tell(history.Op{Verb: history.Complete, ID: "j", Token: s.revs["j"], Session: sid("a"), Result: history.Refused, Why: history.Fenced})
		s.lose("a")
		s.session("b")
		s.claim("j", "b")
	}},
}

func TestAnswersWithoutAnOrderAreFlagged(t *testing.T) {
	for _, u := range unlinearizable {
		t.Run(u.name, func(t *testing.T) {
			s := newStory(t)
			u.make(s)
			run := s.run()
			if u.bare {
				run.Events = nil
			}
			err := history.CheckLinearizable(run, history.LinearConfig{Dir: t.TempDir()})
			if err == nil {
				t.Fatal("linearizable")
			}
			file := regexp.MustCompile(`see (\S+\.html)`).FindStringSubmatch(err.Error())
			if file == nil {
				t.Fatalf("no picture is named in %v", err)
			}
			if b, rerr := os.ReadFile(file[1]); rerr != nil || !strings.Contains(string(b), "html") {
				t.Errorf("the picture: %v", rerr)
			}
		})
	}
}

// What clients were told can be explained without the witness too, since losses and
// releases happen unseen.
func TestClientsAloneAreLinearizable(t *testing.T) {
	s := newStory(t)
	normal(s)
	run := s.run()
	run.Events = nil
	if err := history.CheckLinearizable(run, history.LinearConfig{Dir: t.TempDir()}); err != nil {
		t.Error(err)
	}
	for _, f := range fine {
		s := newStory(t)
		f.make(s)
		run := s.run()
		run.Events = nil
		if err := history.CheckLinearizable(run, history.LinearConfig{Dir: t.TempDir()}); err != nil {
			t.Errorf("%s: %v", f.name, err)
		}
	}
}
