package top_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/leasekit/leasekit/internal/leasectl/top"
)

func TestPauseAsksAndIsGuarded(t *testing.T) {
	r := newRig(t, top.Config{}, someLook())
	r.send(someNews())
	r.press("p")
	r.shows("Pause queue mail in context prod", "[y/N]")
	r.press("x")
	r.shows("not confirmed, nothing changed")
	r.asked()
	r.press("p")
	// While the question stands, others change the queue: what is guarded is what was shown.
	look := someLook()
	look.Queues[0].Revision, look.Queues[0].Paused = 99, true
	r.send(top.News{Now: noon, Look: &look})
	r.press("y")
	r.asked("paused mail true 71")
	r.shows("queue mail is paused")

	r.press("down", "p")
	r.shows("Resume queue reports")
	r.f.err = errors.New("the config moved")
	r.press("y")
	r.shows("resuming queue reports: the config moved; try: again")
}

func TestNothingChangesWhereItMayNot(t *testing.T) {
	r := newRig(t, top.Config{ReadOnly: "context prod is read-only: nothing can be changed from here"}, someLook())
	for _, key := range []string{"p", "r"} {
		r.press(key)
		r.shows("context prod is read-only")
	}
	r.press("y")
	r.asked()

	r = newRig(t, top.Config{}, someLook())
	r.send(top.News{Now: noon, Blind: "no answer"})
	r.press("p")
	r.shows("nothing can be changed now")
	r.press("y")
	r.asked()
}

func TestTheNameOfTheContextIsTyped(t *testing.T) {
	r := newRig(t, top.Config{TypeName: "prod"}, someLook())
	r.press("p", "y", "enter")
	r.shows("not confirmed")
	r.press("p", "prodd", "backspace")
	r.shows("Type prod: prod_")
	r.asked()
	r.press("enter")
	r.asked("paused mail true 71")
}

func TestRetryActsOnWhatWasFound(t *testing.T) {
	r := newRig(t, top.Config{}, someLook())
	retried := 0
	r.f.found = top.Found{Count: 2, About: "mail/a (send, dead), mail/b (send, dead)", Retry: func(context.Context) (string, error) {
		retried++
		return "2 of 2 dead jobs retried", nil
	}}
	r.press("r")
	r.shows("Retry 2 dead jobs of queue mail in context prod", "mail/a (send, dead)")
	r.press("esc")
	if retried != 0 {
		t.Error("it was not confirmed")
	}
	r.press("r", "y")
	r.shows("2 of 2 dead jobs retried")
	if retried != 1 {
		t.Errorf("retried %d times", retried)
	}
	r.press("down", "r")
	r.shows("queue reports has no dead jobs")
	r.asked("dead mail", "dead mail")
}

func TestSevereOnesAreOnlyTold(t *testing.T) {
	r := newRig(t, top.Config{}, someLook())
	r.press("D")
	r.shows("leasectl jobs delete --queue mail --state dead")
	r.press("P")
	r.shows("leasectl queues purge mail")
	r.asked()
}

func TestFilterIsCheckedBeforeItIsUsed(t *testing.T) {
	r := newRig(t, top.Config{}, someLook())
	r.f.listing = top.Listing{At: noon, Jobs: []top.Job{{ID: "one"}, {ID: "two"}}}
	r.press("/", "bad:x", "enter")
	r.shows("no such field", "filter of queue mail: bad:x_")
	r.asked()
	r.press("ctrl+u", "state:dead q", "enter") // a q that is typed does not leave
	r.shows("filter state:dead q", "2, read at 12:00:00", "> one")
	r.asked(`jobs mail "state:dead q"`)

	// What changes is listed again, but a slow listing not all the time.
	r.press("down")
	look := someLook()
	r.f.listing.Jobs = append([]top.Job{{ID: "zero"}}, r.f.listing.Jobs...)
	r.f.listing.Took = time.Minute
	r.send(top.News{Now: noon.Add(time.Second), Look: &look})
	r.shows("  zero", "> two")
	r.send(top.News{Now: noon.Add(2 * time.Second), Look: &look})
	r.asked(`jobs mail "state:dead q"`, `jobs mail "state:dead q"`)
	r.press("enter")
	r.shows("leasectl jobs describe mail/two")

	// A listing that fails leaves what was there, and says so.
	r.f.err = errors.New("no answer")
	r.send(top.News{Now: noon.Add(time.Hour), Look: &look})
	r.shows("cannot be read now: no answer", "> two")
	r.press("esc")
	r.shows("QUEUE")
}

func TestWhoLeaves(t *testing.T) {
	r := newRig(t, top.Config{}, someLook())
	if !r.press("q") || !r.press("ctrl+c") {
		t.Error("it goes on")
	}
	// In the middle of an action, q waits for its end.
	r.press("p")
	_, act := r.m.Update(pressed('y'))
	if r.press("q") {
		t.Error("it left in the middle of an action")
	}
	r.shows("leaving when it is done")
	if !r.send(act()) {
		t.Error("it goes on after the action")
	}
}

func TestAQueueThatGoes(t *testing.T) {
	r := newRig(t, top.Config{}, someLook())
	r.press("enter")
	look := someLook()
	look.Queues = look.Queues[1:]
	r.send(top.News{Now: noon, Look: &look})
	r.shows("the queue is gone")
	r.press("p", "esc")
	r.shows("> reports")
	r.send(top.News{Now: noon, Look: &top.Look{At: noon}})
	r.press("p", "enter", "down", "/", "r")
	r.shows("none yet", "there is no queue")
	r.asked(`jobs mail ""`, `jobs mail ""`)
}

func TestRatesAreSinceItRuns(t *testing.T) {
	r := newRig(t, top.Config{}, someLook())
	r.shows("10.3/s in the last 5m")
	r.send(top.News{Now: noon})
	r.send(top.News{Now: noon.Add(10 * time.Second), Done: map[string]int{"mail": 50}})
	r.shows("5.0/s", "since 12:00:00")
	r.send(top.News{Now: noon.Add(30 * time.Second)})
	r.shows("1.7/s")
	r.send(top.News{Now: noon.Add(90 * time.Second)})
	r.shows("0.0/s", "since 12:00:00", "counted 90s ago")
	r.send(top.News{Now: noon.Add(91 * time.Second), Gap: true})
	r.shows("some was missed; since 12:01:31")
}
