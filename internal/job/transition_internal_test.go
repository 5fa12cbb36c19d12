package job

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

var allVerbs = []Verb{VerbClaim, VerbReclaim, VerbComplete, VerbFail, VerbSnooze, VerbRelease, VerbCancel, VerbRequeue, VerbBreak, VerbBury, VerbEdit, VerbMove}

// jobIn returns a record in a state, with counters that tell whether they are
// changed.
func jobIn(state string) (*Record, Place) {
	r := &Record{
		Nonce: testNonce, Version: VersionPlain, ID: "x", Born: "b", MaxAttempts: 9, MaxLosses: 9,
		Attempt: 4, Failures: 2, Losses: 1, LogTotal: 1, Attempts: []Attempt{{Attempt: 3, Outcome: OutcomeFailed}},
	}
	switch state {
	case "open, due":
	case "open, later":
		r.RunAt = Stamp(testNow.Add(time.Minute))
	case "claimed":
		r.Owner, r.OwnerRev, r.ClaimedAt = "old", 5, Stamp(testNow.Add(-time.Minute))
	case "done":
		r.Outcome, r.FinishedAt, r.Result = OutcomeCompleted, Stamp(testNow), []byte("1")
		return r, InDone
	case "dead":
		r.Outcome, r.FinishedAt, r.Error = OutcomeDead, Stamp(testNow), "why"
		return r, InDead
	}
	return r, InJobs
}

// testEvent is what is the same in all events of these tests.
func testEvent(v Verb) Event {
	return Event{
		Verb: v, Now: testNow, Nonce: "00000000000000cc", Token: 77, Owner: "new", OwnerRev: 6,
		Result: []byte(`{"r":1}`), Err: "oops", At: testNow.Add(time.Hour),
		Delay: func(n int) time.Duration { return time.Duration(n) * time.Second },
		By:    By{Actor: "ann", Reason: "because", BreakClaim: true},
		Edit:  &Edition{Description{Payload: []byte("2"), RunAt: testNow.Add(2 * time.Hour)}, true},
		From:  "q",
	}
}

// summary names what a transition led to.
func summary(n Next, err error) string {
	if err != nil {
		return "refused"
	}
	r := n.Record
	switch {
	case n.Where == InDone:
		return "done: " + r.Outcome
	case n.Where == InDead:
		return "dead"
	case r.Claimed():
		return "claimed by " + r.Owner
	case r.RunAt.IsZero():
		return "open"
	}
	return "open in " + r.RunAt.Sub(Stamp(testNow)).String()
}

func TestEveryVerbInEveryState(t *testing.T) {
	states := []string{"open, due", "open, later", "claimed", "done", "dead"}
	// What each verb leads to, by state; of at-most-once jobs behind the slash
	// where that differs.
	want := map[Verb][5]string{
		VerbClaim:    {"claimed by new", "refused", "refused", "refused", "refused"},
		VerbReclaim:  {"refused", "refused", "claimed by new/dead", "refused", "refused"},
		VerbComplete: {"refused", "refused", "done: completed", "refused", "refused"},
		VerbFail:     {"refused", "refused", "open in 3s/dead", "refused", "refused"},
		VerbSnooze:   {"refused", "refused", "open in 1h0m0s/dead", "refused", "refused"},
		VerbRelease:  {"refused", "refused", "open in 1h0m0s/dead", "refused", "refused"},
		VerbCancel:   {"done: cancelled", "done: cancelled", "done: cancelled", "refused", "refused"},
		VerbRequeue:  {"refused", "open", "refused", "open", "open"},
		VerbBreak:    {"refused", "refused", "open in 1h0m0s/dead", "refused", "refused"},
		VerbBury:     {"dead", "dead", "refused", "refused", "refused"},
		VerbEdit:     {"open in 2h0m0s", "open in 2h0m0s", "open in 2h0m0s/refused", "refused", "refused"},
		VerbMove:     {"open", "open in 1m0s", "open/refused", "refused", "dead"},
		"":           {"refused", "refused", "refused", "refused", "refused"},
		"explode":    {"refused", "refused", "refused", "refused", "refused"},
	}
	for _, v := range append([]Verb{"", "explode"}, allVerbs...) {
		for i, state := range states {
			for _, once := range []bool{false, true} {
				r, where := jobIn(state)
				r.AtMostOnce = once
				before := *r
				n, err := Transition(r, where, testEvent(v))
				usual, amo, differs := strings.Cut(want[v][i], "/")
				if once && differs {
					usual = amo
				}
				if got := summary(n, err); got != usual {
					t.Errorf("%s of a job that is %s (at most once: %v): got %s, want %s", v, state, once, got, usual)
				}
				if err != nil && !errors.Is(err, ErrNotApplicable) {
					t.Errorf("%s of a job that is %s: got %v", v, state, err)
				}
				if !reflect.DeepEqual(*r, before) {
					t.Errorf("%s changed the record that it was given", v)
				}
				if err == nil {
					checkInvariants(t, fmt.Sprintf("%s, %s", v, state), r, n)
				}
			}
		}
	}
}

// checkInvariants checks what holds for every step.
func checkInvariants(t *testing.T, what string, before *Record, n Next) {
	t.Helper()
	r := n.Record
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s: %s", what, fmt.Sprintf(format, args...))
	}
	if r.Nonce == before.Nonce {
		fail("the head nonce is the old one")
	}
	if r.Claimed() != n.Claims() || r.Claimed() != (r.OwnerRev != 0) || r.Claimed() != !r.ClaimedAt.IsZero() {
		fail("owner %q, revision %d, claimed at %v in %d", r.Owner, r.OwnerRev, r.ClaimedAt, n.Where)
	}
	if r.Assigned && !r.Claimed() {
		fail("it is assigned to nobody")
	}
	if r.Claimed() && !r.RunAt.IsZero() {
		fail("a claimed job waits until %v", r.RunAt)
	}
	if over := n.Where != InJobs; over != (r.Outcome != "") || over != !r.FinishedAt.IsZero() || over && !r.RunAt.IsZero() {
		fail("in %d with outcome %q, finished at %v, run at %v", n.Where, r.Outcome, r.FinishedAt, r.RunAt)
	}
	if r.Born != before.Born || r.ID != before.ID {
		fail("it is another job")
	}
	if r.Attempt < before.Attempt || r.Attempt > before.Attempt+1 || (r.Attempt > before.Attempt) != r.Claimed() {
		fail("attempt %d after %d, claimed: %v", r.Attempt, before.Attempt, r.Claimed())
	}
	logged := r.LogTotal - before.LogTotal
	if wanted := before.Claimed() || n.Where != InJobs || !r.Claimed(); logged != btoi(wanted) {
		fail("%d entries were added to the trail", logged)
	}
	sum := 0
	for _, a := range r.Attempts {
		sum += 1 + a.Repeated
	}
	if len(r.Attempts) > LogLimit || sum > r.LogTotal || sum < r.LogTotal && len(r.Attempts) < LogLimit {
		fail("the trail has %d entries for %d of %d", len(r.Attempts), sum, r.LogTotal)
	}
	if r.Losses < 0 || r.Failures < 0 || r.Losses > before.Losses+1 || r.Failures > before.Failures+1 {
		fail("%d losses after %d, %d failures after %d", r.Losses, before.Losses, r.Failures, before.Failures)
	}
	if b, err := r.Encode(); err != nil {
		fail("%v", err)
	} else if back, err := Decode(b); err != nil || !reflect.DeepEqual(back, r) {
		fail("came back as %+v, %v; want %+v", back, err, r)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestFailures(t *testing.T) {
	for _, tc := range []struct {
		failures, max int
		permanent     bool
		want          string
	}{
		{0, 0, false, "open in 1s"},
		{3, 0, false, "open in 4s"},
		{4, 0, false, "dead"}, // five by default
		{0, 1, false, "dead"},
		{0, 2, false, "open in 1s"},
		{1, 2, false, "dead"},
		{0, 9, true, "dead"},
		{9, 2, false, "dead"}, // the limit was lowered meanwhile
	} {
		r, _ := jobIn("claimed")
		r.Failures, r.MaxAttempts = tc.failures, tc.max
		e := testEvent(VerbFail)
		e.Permanent = tc.permanent
		n, err := Transition(r, InJobs, e)
		if got := summary(n, err); got != tc.want {
			t.Errorf("failure %d of %d, permanent %v: got %s, want %s", tc.failures+1, tc.max, tc.permanent, got, tc.want)
		}
		if got := n.Record; got.Failures != tc.failures+1 || got.Losses != 0 {
			t.Errorf("got %d failures, %d losses", got.Failures, got.Losses)
		}
		if n.Where == InDead && n.Record.Error != "oops" {
			t.Errorf("dead because of %q", n.Record.Error)
		}
	}
}

func TestLosses(t *testing.T) {
	for _, tc := range []struct {
		losses, max int
		counted     bool
		want        string
		wantLosses  int
	}{
		// The first counted loss is claimed again at once, the second waits, the
		// third buries.
		{0, 0, true, "claimed by new", 1},
		{1, 0, true, "open in 1s", 2},
		{2, 0, true, "dead", 3},
		{2, 5, true, "open in 2s", 3},
		{3, 5, true, "open in 3s", 4},
		{4, 5, true, "dead", 5},
		{0, 1, true, "dead", 1},
		{7, 3, true, "dead", 8},
		// One that does not count never buries, and never waits.
		{0, 1, false, "claimed by new", 0},
		{2, 3, false, "claimed by new", 2},
		{9, 3, false, "claimed by new", 9},
	} {
		r, _ := jobIn("claimed")
		r.Losses, r.MaxLosses = tc.losses, tc.max
		e := testEvent(VerbReclaim)
		e.Counted, e.Err, e.By = tc.counted, "", By{}
		n, err := Transition(r, InJobs, e)
		if got := summary(n, err); got != tc.want || n.Record.Losses != tc.wantLosses || n.Record.Failures != 2 {
			t.Errorf("loss after %d of %d, counted %v: got %s with %d losses, %d failures, want %s with %d, 2",
				tc.losses, tc.max, tc.counted, got, n.Record.Losses, n.Record.Failures, tc.want, tc.wantLosses)
		}
		last := n.Record.Attempts[len(n.Record.Attempts)-1]
		want := Attempt{
			Attempt: 4, Owner: "old", Token: 77, ClaimedAt: r.ClaimedAt, EndedAt: Stamp(testNow),
			Outcome: OutcomeLost, Error: "the owner's session ended", Counted: tc.counted,
		}
		if last != want {
			t.Errorf("got %+v, want %+v", last, want)
		}
	}
}

// A drain eats no attempt, and a handler that answers is no pill.
func TestWhatCountsAsNothing(t *testing.T) {
	for v, losses := range map[Verb]int{VerbRelease: 1, VerbBreak: 1, VerbSnooze: 0} {
		r, _ := jobIn("claimed")
		n, err := Transition(r, InJobs, testEvent(v))
		if err != nil {
			t.Fatal(err)
		}
		if got := n.Record; got.Failures != 2 || got.Losses != losses || got.Attempt != 4 {
			t.Errorf("%s: got %d failures, %d losses, attempt %d", v, got.Failures, got.Losses, got.Attempt)
		}
	}
}

func TestRequeueStartsAnew(t *testing.T) {
	for _, state := range []string{"done", "dead", "open, later"} {
		r, where := jobIn(state)
		n, err := Transition(r, where, testEvent(VerbRequeue))
		if err != nil {
			t.Fatal(err)
		}
		got := n.Record
		if got.Failures != 0 || got.Losses != 0 || got.Error != "" || got.ResultBytes() != nil || got.Attempt != 4 || got.LogTotal != 2 {
			t.Errorf("from %s: %+v", state, got)
		}
		want := Attempt{EndedAt: Stamp(testNow), Outcome: OutcomeRequeued, Actor: "ann", Reason: "because"}
		if last := got.Attempts[1]; last != want {
			t.Errorf("got %+v, want %+v", last, want)
		}
		again, err := Transition(got, InJobs, testEvent(VerbClaim))
		if err != nil || again.Record.Attempt != 5 {
			t.Errorf("the next attempt is %d, %v, want 5", again.Record.Attempt, err)
		}
	}
}

func TestTheTrailTellsWhoEndedAnAttempt(t *testing.T) {
	for v, outcome := range map[Verb]string{
		VerbComplete: OutcomeCompleted, VerbFail: OutcomeFailed, VerbSnooze: OutcomeSnoozed, VerbRelease: OutcomeReleased,
		VerbCancel: OutcomeCancelled, VerbBreak: OutcomeBroken,
	} {
		r, _ := jobIn("claimed")
		n, err := Transition(r, InJobs, testEvent(v))
		if err != nil {
			t.Fatal(err)
		}
		want := Attempt{
			Attempt: 4, Owner: "old", Token: 77, ClaimedAt: r.ClaimedAt, EndedAt: Stamp(testNow), Outcome: outcome, Error: "oops",
			Actor: "ann", Reason: "because",
		}
		if v == VerbComplete {
			want.Error = ""
		}
		if last := n.Record.Attempts[1]; last != want {
			t.Errorf("%s: got %+v, want %+v", v, last, want)
		}
	}
	r, _ := jobIn("open, later")
	e := testEvent(VerbCancel)
	e.Err = ""
	n, err := Transition(r, InJobs, e)
	if err != nil {
		t.Fatal(err)
	}
	// Nobody's attempt was cancelled: the latest one had ended before.
	want := Attempt{EndedAt: Stamp(testNow), Outcome: OutcomeCancelled, Actor: "ann", Reason: "because"}
	if last := n.Record.Attempts[1]; last != want || n.Record.Error != "because" {
		t.Errorf("got %+v, %q, want %+v", last, n.Record.Error, want)
	}
}

// Whatever happens to a job that may start once, it starts once.
func TestAtMostOnceEndsInDoneOrDead(t *testing.T) {
	for _, v := range allVerbs {
		for _, counted := range []bool{false, true} {
			r, _ := jobIn("claimed")
			r.AtMostOnce = true
			e := testEvent(v)
			e.Counted = counted
			n, err := Transition(r, InJobs, e)
			if err != nil {
				continue
			}
			if n.Where == InJobs {
				t.Errorf("%s, counted %v: the job is in jobs again", v, counted)
			}
			if n.Where == InDead && n.Record.Error == "" {
				t.Errorf("%s: nobody is told why", v)
			}
		}
	}
}

// A random walk with every verb at every step: whatever is accepted keeps the
// invariants, and the job can always be brought to an end.
func TestRandomWalksKeepTheInvariants(t *testing.T) {
	for seed := range uint64(200) {
		dice := rand.New(rand.NewPCG(seed, 1))
		r := New(Description{
			ID: "x", MaxAttempts: dice.IntN(4), MaxLosses: dice.IntN(4), AtMostOnce: dice.IntN(4) == 0,
		}, 1, testNow)
		where, now, started := InJobs, testNow, 0
		for step := range 100 {
			now = now.Add(time.Duration(dice.IntN(3000)) * time.Millisecond)
			e := testEvent(allVerbs[dice.IntN(len(allVerbs))])
			e.Now, e.At, e.Counted, e.Permanent = now, now.Add(time.Duration(dice.IntN(5)-2)*time.Second), dice.IntN(2) == 0, dice.IntN(8) == 0
			e.Assigned = dice.IntN(2) == 0
			e.Nonce, e.Owner, e.Err = fmt.Sprintf("%016x", step+1), fmt.Sprintf("s%d", dice.IntN(3)), ""
			if dice.IntN(2) == 0 {
				e.Err = "oops"
			}
			before := *r
			n, err := Transition(r, where, e)
			if !reflect.DeepEqual(*r, before) {
				t.Fatalf("seed %d, step %d: %s changed its input", seed, step, e.Verb)
			}
			if err != nil {
				continue
			}
			checkInvariants(t, fmt.Sprintf("seed %d, step %d, %s", seed, step, e.Verb), r, n)
			if e.Verb == VerbRequeue {
				started = 0
			}
			if n.Claims() {
				started++
			}
			if r.AtMostOnce && started > 1 {
				t.Fatalf("seed %d, step %d: an at-most-once job was started again", seed, step)
			}
			if again, _ := Transition(r, where, e); !reflect.DeepEqual(again, n) {
				t.Fatalf("seed %d, step %d: %s gives another record the second time", seed, step, e.Verb)
			}
			r, where = n.Record, n.Where
			if t.Failed() {
				return
			}
		}
	}
}
