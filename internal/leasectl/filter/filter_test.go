package filter

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/workqueue"
)

func filterJob(now time.Time) *workqueue.Job {
	return &workqueue.Job{
		Queue: "mail", ID: "order,1*", Kind: "send-welcome", State: workqueue.StateOrphan, Priority: -2, Attempt: 4, Failures: 1,
		Labels: map[string]string{"tenant": "42", "a b:c": "x y"}, Owner: "w-7f.0123456789abcdef", Token: 918201, Revision: 918201,
		EnqueuedAt: now.Add(-90 * time.Minute), ClaimedAt: now.Add(-time.Minute), PayloadSize: 2048,
		Attempts: []workqueue.Attempt{{Outcome: "failed", Error: "SMTP Timeout after 3s"}},
	}
}

func TestFilterMatches(t *testing.T) {
	now := time.Now()
	j := filterJob(now)
	for text, want := range map[string]bool{
		"":                                true,
		"  ":                              true,
		"queue:mail":                      true,
		"queue:mails":                     false,
		"queue:ma*,x":                     true,
		"kind:send*":                      true,
		"kind:*welcome":                   true,
		"kind:s*-*e":                      true,
		"kind:send":                       false,
		"kind:*":                          true,
		"-kind:send*":                     false,
		"-kind:other":                     true,
		"state:orphan":                    true,
		"state:claimed":                   true, // by a session that is gone
		"state:claimed -state:orphan":     false,
		"state:dead,retry":                false,
		"-state:dead":                     true,
		`id:"order,1*"`:                   true,
		`id:order*`:                       true,
		`id:"order*"`:                     false,
		`id:order","1"*"`:                 true,
		"id:order,1*":                     false, // two patterns: order and 1*
		"worker:w-7f":                     true,
		"worker:w-7":                      false,
		"worker:w-*":                      true,
		"worker:w-7f.0123456789abcdef":    true,
		"label.tenant:42":                 true,
		"label.tenant:4*,5":               true,
		"label.tenant:*":                  true,
		"label.none:*":                    false,
		"-label.none:*":                   true,
		`label."a b:c":"x y"`:             true,
		"attempt:>3":                      true,
		"attempt:>4":                      false,
		"attempt:>=4":                     true,
		"attempt:4":                       true,
		"attempt:=4":                      true,
		"attempt:1,4":                     true,
		"attempt:<4":                      false,
		"attempt:<=4":                     true,
		"attempt:>3 attempt:<5":           true,
		"failures:1 losses:0":             true,
		"priority:<0":                     true,
		"priority:-2":                     true,
		"size:>1024":                      true,
		"token:918201 revision:>1":        true,
		"age:>1h":                         true,
		"age:>1h30m1s":                    false,
		"age:<2d":                         true,
		"running:<2m":                     true,
		"ended:>0s":                       false, // it has not ended
		"error:*timeout*":                 true,  // without regard to case
		"error:*refused*":                 false,
		`error:"smtp timeout"*`:           true,
		"queue:mail kind:send* attempt:9": false,
	} {
		f, err := Parse(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := f.Matches(j, now); got != want {
			t.Errorf("%q matches: %v, want %v", text, got, want)
		}
	}
}

func TestFilterErrorsNameTheTermAndTheWayOut(t *testing.T) {
	for text, want := range map[string]string{
		"dead":              `term "dead" is not FIELD:VALUE, such as state:dead`,
		"state:":            `term "state:" has no value behind the colon`,
		"state:finished":    `term "state:finished" has the state "finished", which is none of ready, `,
		"state:dead,":       `has the state ""`,
		"colour:red":        `term "colour:red" has the field "colour", which is none of state, label.NAME, queue, `,
		"label.:x":          `has the field "label."`,
		"kind:a attempt:x":  `term "attempt:x" needs a whole number, such as attempt:3 or attempt:>3`,
		"attempt:>":         `needs a whole number`,
		"age:1h":            `term "age:1h" needs < or > before the duration, such as age:>1h`,
		"age:>1y":           `term "age:>1y" needs a duration behind < or >, such as age:>1h or age:<2d`,
		"age:>-1h":          `needs a duration`,
		"-age:x":            `term "-age:x" needs a duration`,
		`error:"no such`:    `a quote that is never closed in "error:\"no such"`,
		`label."a:b`:        `never closed`,
		":x":                `has the field ""`,
		"-":                 `term "-" is not FIELD:VALUE`,
		"queue:mail ORphan": `term "ORphan" is not FIELD:VALUE`,
	} {
		_, err := Parse(text)
		code, try := exit.Explain(err)
		if err == nil || code != exit.Usage || try != "leasectl help filters" {
			t.Errorf("%q: %v, exit code %d, try %q", text, err, code, try)
			continue
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestFilterSaysWhatNeedNotBeRead(t *testing.T) {
	for _, tt := range []struct {
		text   string
		states []workqueue.State
		never  bool
		queues []string
		named  bool
		id     string
		empty  bool
	}{
		{text: "", empty: true},
		{text: "state:dead,retry", states: []workqueue.State{"dead", "retry"}},
		{text: "state:claimed", states: []workqueue.State{"claimed", "orphan"}},
		{text: "-state:dead"},
		{text: "state:dead,retry state:retry", states: []workqueue.State{"retry"}},
		{text: "state:dead state:retry", never: true},
		{text: "queue:a,b", queues: []string{"a", "b"}, named: true},
		{text: "queue:a,b queue:b", queues: []string{"b"}, named: true},
		{text: "queue:a*"},
		{text: "-queue:a"},
		{text: "id:x", id: "x"},
		{text: "-id:x"},
		{text: "id:x,y"},
	} {
		f, err := Parse(tt.text)
		if err != nil {
			t.Fatal(err)
		}
		queues, named := f.queues()
		id, _ := f.ID()
		if got := f.States(); !slices.Equal(got, tt.states) || f.Never() != tt.never || !slices.Equal(queues, tt.queues) ||
			named != tt.named || id != tt.id || f.empty() != tt.empty {
			t.Errorf("%q: states %v never %v queues %v %v id %q empty %v", tt.text, got, f.Never(), queues, named, id, f.empty())
		}
	}
}

func TestFilterLeavesQueuesOut(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "queue:ma*": true, "queue:post": false, "-queue:ma*": false, "-queue:post": true, "state:dead kind:x": true,
	} {
		f, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.WantsQueue("mail"); got != want {
			t.Errorf("%q wants mail: %v, want %v", text, got, want)
		}
	}
}
