package job

import (
	"errors"
	"testing"
	"time"
)

// Without the word for it nobody takes a job from its owner, and one that was started
// and may be once is never open again.
func TestEditAndMoveLeaveAClaimAlone(t *testing.T) {
	for _, v := range []Verb{VerbEdit, VerbMove} {
		for name, change := range map[string]func(*Record, *Event){
			"not asked to":               func(_ *Record, e *Event) { e.By.BreakClaim = false },
			"to be started once at most": func(r *Record, _ *Event) { r.AtMostOnce = true },
		} {
			r, where := jobIn("claimed")
			e := testEvent(v)
			change(r, &e)
			if n, err := Transition(r, where, e); !errors.Is(err, ErrNotApplicable) {
				t.Errorf("%s, %s: %s, %v", v, name, summary(n, err), err)
			}
		}
	}
}

// An edit keeps who the job is, what it went through, and what it was not asked to
// change.
func TestEditKeepsTheRest(t *testing.T) {
	r, where := jobIn("open, later")
	r.Seq, r.Beside, r.Trace, r.EnqueuedAt = 3, 2000, map[string]string{"traceparent": "t"}, Stamp(testNow)
	e := testEvent(VerbEdit)
	p := r.Description(make([]byte, 2000))
	p.Priority, p.Timeout = 5, 1500*time.Microsecond
	e.Edit = &Edition{Description: p}
	n, err := Transition(r, where, e)
	if err != nil {
		t.Fatal(err)
	}
	got := n.Record
	if got.Priority != 5 || got.TimeoutMS != 2 || got.Beside != 2000 || !got.RunAt.Equal(r.RunAt) || got.Seq != 3 || got.Trace["traceparent"] != "t" {
		t.Errorf("got %+v", got)
	}
	if got.Attempt != 4 || got.Failures != 2 || got.Losses != 1 || got.Born != "b" || !got.EnqueuedAt.Equal(r.EnqueuedAt) {
		t.Errorf("it is another job: %+v", got)
	}
	want := Attempt{EndedAt: Stamp(testNow), Outcome: OutcomeEdited, Actor: "ann", Reason: "because"}
	if last := got.Attempts[1]; last != want {
		t.Errorf("got %+v, want %+v", last, want)
	}
}

func TestTheTrailTellsWhereAJobCameFrom(t *testing.T) {
	for state, ended := range map[string]Attempt{
		"open, due": {}, "dead": {},
		"claimed": {Attempt: 4, Owner: "old", Token: 77, ClaimedAt: Stamp(testNow.Add(-time.Minute))},
	} {
		r, where := jobIn(state)
		n, err := Transition(r, where, testEvent(VerbMove))
		if err != nil {
			t.Fatal(err)
		}
		ended.EndedAt, ended.Outcome, ended.Actor, ended.Reason, ended.From = Stamp(testNow), OutcomeMoved, "ann", "because", "q"
		if last := n.Record.Attempts[1]; last != ended {
			t.Errorf("%s: got %+v, want %+v", state, last, ended)
		}
	}
}
