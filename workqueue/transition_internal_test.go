package workqueue

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

var allVerbs = []verb{verbClaim, verbReclaim, verbComplete, verbFail, verbSnooze, verbRelease, verbCancel, verbRequeue, verbBreak, verbBury, verbEdit, verbMove}

// jobIn returns a record in a state, with counters that tell whether they are
// changed.
func jobIn(state string) (*record, place) {
	r := &record{
		Nonce: testNonce, Version: versionPlain, ID: "x", Born: "b", MaxAttempts: 9, MaxLosses: 9,
		Attempt: 4, Failures: 2, Losses: 1, LogTotal: 1, Attempts: []Attempt{{Attempt: 3, Outcome: outcomeFailed}},
	}
	switch state {
	case "open, due":
	case "open, later":
		r.RunAt = stamp(testNow.Add(time.Minute))
	case "claimed":
		r.Owner, r.OwnerRev, r.ClaimedAt = "old", 5, stamp(testNow.Add(-time.Minute))
	case "done":
		r.Outcome, r.FinishedAt, r.Result = outcomeCompleted, stamp(testNow), []byte("1")
		return r, inDone
	case "dead":
		r.Outcome, r.FinishedAt, r.Error = outcomeDead, stamp(testNow), "why"
		return r, inDead
	}
	return r, inJobs
}

// testEvent is what is the same in all events of these tests.
func testEvent(v verb) event {
	return event{
		verb: v, now: testNow, nonce: "00000000000000cc", token: 77, owner: "new", ownerRev: 6,
		result: []byte(`{"r":1}`), err: "oops", at: testNow.Add(time.Hour),
		delay: func(n int) time.Duration { return time.Duration(n) * time.Second },
		by:    By{Actor: "ann", Reason: "because", BreakClaim: true},
		edit:  &edition{Params: Params{ID: "x", Payload: []byte("2"), RunAt: testNow.Add(2 * time.Hour)}, repacked: true},
		from:  "q",
	}
}

// summary names what a transition led to.
func summary(n next, err error) string {
	if err != nil {
		return "refused"
	}
	r := n.record
	switch {
	case n.where == inDone:
		return "done: " + r.Outcome
	case n.where == inDead:
		return "dead"
	case r.claimed():
		return "claimed by " + r.Owner
	case r.RunAt.IsZero():
		return "open"
	}
	return "open in " + r.RunAt.Sub(stamp(testNow)).String()
}

func TestEveryVerbInEveryState(t *testing.T) {
	states := []string{"open, due", "open, later", "claimed", "done", "dead"}
	// What each verb leads to, by state; of at-most-once jobs behind the slash
	// where that differs.
	want := map[verb][5]string{
		verbClaim:    {"claimed by new", "refused", "refused", "refused", "refused"},
		verbReclaim:  {"refused", "refused", "claimed by new/dead", "refused", "refused"},
		verbComplete: {"refused", "refused", "done: completed", "refused", "refused"},
		verbFail:     {"refused", "refused", "open in 3s/dead", "refused", "refused"},
		verbSnooze:   {"refused", "refused", "open in 1h0m0s/dead", "refused", "refused"},
		verbRelease:  {"refused", "refused", "open in 1h0m0s/dead", "refused", "refused"},
		verbCancel:   {"done: cancelled", "done: cancelled", "done: cancelled", "refused", "refused"},
		verbRequeue:  {"refused", "open", "refused", "open", "open"},
		verbBreak:    {"refused", "refused", "open in 1h0m0s/dead", "refused", "refused"},
		verbBury:     {"dead", "dead", "refused", "refused", "refused"},
		verbEdit:     {"open in 2h0m0s", "open in 2h0m0s", "open in 2h0m0s/refused", "refused", "refused"},
		verbMove:     {"open", "open in 1m0s", "open/refused", "refused", "dead"},
		"":           {"refused", "refused", "refused", "refused", "refused"},
		"explode":    {"refused", "refused", "refused", "refused", "refused"},
	}
	for _, v := range append([]verb{"", "explode"}, allVerbs...) {
		for i, state := range states {
			for _, once := range []bool{false, true} {
				r, where := jobIn(state)
				r.AtMostOnce = once
				before := *r
				n, err := transition(r, where, testEvent(v))
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
func checkInvariants(t *testing.T, what string, before *record, n next) {
	t.Helper()
	r := n.record
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s: %s", what, fmt.Sprintf(format, args...))
	}
	if r.Nonce == before.Nonce {
		fail("the head nonce is the old one")
	}
	if r.claimed() != n.claims() || r.claimed() != (r.OwnerRev != 0) || r.claimed() != !r.ClaimedAt.IsZero() {
		fail("owner %q, revision %d, claimed at %v in %d", r.Owner, r.OwnerRev, r.ClaimedAt, n.where)
	}
	if r.Assigned && !r.claimed() {
		fail("it is assigned to nobody")
	}
	if r.claimed() && !r.RunAt.IsZero() {
		fail("a claimed job waits until %v", r.RunAt)
	}
	if over := n.where != inJobs; over != (r.Outcome != "") || over != !r.FinishedAt.IsZero() || over && !r.RunAt.IsZero() {
		fail("in %d with outcome %q, finished at %v, run at %v", n.where, r.Outcome, r.FinishedAt, r.RunAt)
	}
	if r.Born != before.Born || r.ID != before.ID {
		fail("it is another job")
	}
	if r.Attempt < before.Attempt || r.Attempt > before.Attempt+1 || (r.Attempt > before.Attempt) != r.claimed() {
		fail("attempt %d after %d, claimed: %v", r.Attempt, before.Attempt, r.claimed())
	}
	logged := r.LogTotal - before.LogTotal
	if wanted := before.claimed() || n.where != inJobs || !r.claimed(); logged != btoi(wanted) {
		fail("%d entries were added to the trail", logged)
	}
	sum := 0
	for _, a := range r.Attempts {
		sum += 1 + a.Repeated
	}
	if len(r.Attempts) > logLimit || sum > r.LogTotal || sum < r.LogTotal && len(r.Attempts) < logLimit {
		fail("the trail has %d entries for %d of %d", len(r.Attempts), sum, r.LogTotal)
	}
	if r.Losses < 0 || r.Failures < 0 || r.Losses > before.Losses+1 || r.Failures > before.Failures+1 {
		fail("%d losses after %d, %d failures after %d", r.Losses, before.Losses, r.Failures, before.Failures)
	}
	if b, err := r.encode(); err != nil {
		fail("%v", err)
	} else if back, err := decodeRecord(b); err != nil || !reflect.DeepEqual(back, r) {
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
		e := testEvent(verbFail)
		e.permanent = tc.permanent
		n, err := transition(r, inJobs, e)
		if got := summary(n, err); got != tc.want {
			t.Errorf("failure %d of %d, permanent %v: got %s, want %s", tc.failures+1, tc.max, tc.permanent, got, tc.want)
		}
		if got := n.record; got.Failures != tc.failures+1 || got.Losses != 0 {
			t.Errorf("got %d failures, %d losses", got.Failures, got.Losses)
		}
		if n.where == inDead && n.record.Error != "oops" {
			t.Errorf("dead because of %q", n.record.Error)
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
		e := testEvent(verbReclaim)
		e.counted, e.err, e.by = tc.counted, "", By{}
		n, err := transition(r, inJobs, e)
		if got := summary(n, err); got != tc.want || n.record.Losses != tc.wantLosses || n.record.Failures != 2 {
			t.Errorf("loss after %d of %d, counted %v: got %s with %d losses, %d failures, want %s with %d, 2",
				tc.losses, tc.max, tc.counted, got, n.record.Losses, n.record.Failures, tc.want, tc.wantLosses)
		}
		last := n.record.Attempts[len(n.record.Attempts)-1]
		want := Attempt{
			Attempt: 4, Owner: "old", Token: 77, ClaimedAt: r.ClaimedAt, EndedAt: stamp(testNow),
			Outcome: outcomeLost, Error: "the owner's session ended", Counted: tc.counted,
		}
		if last != want {
			t.Errorf("got %+v, want %+v", last, want)
		}
	}
}

// A drain eats no attempt, and a handler that answers is no pill.
func TestWhatCountsAsNothing(t *testing.T) {
	for v, losses := range map[verb]int{verbRelease: 1, verbBreak: 1, verbSnooze: 0} {
		r, _ := jobIn("claimed")
		n, err := transition(r, inJobs, testEvent(v))
		if err != nil {
			t.Fatal(err)
		}
		if got := n.record; got.Failures != 2 || got.Losses != losses || got.Attempt != 4 {
			t.Errorf("%s: got %d failures, %d losses, attempt %d", v, got.Failures, got.Losses, got.Attempt)
		}
	}
}

func TestRequeueStartsAnew(t *testing.T) {
	for _, state := range []string{"done", "dead", "open, later"} {
		r, where := jobIn(state)
		n, err := transition(r, where, testEvent(verbRequeue))
		if err != nil {
			t.Fatal(err)
		}
		got := n.record
		if got.Failures != 0 || got.Losses != 0 || got.Error != "" || got.result() != nil || got.Attempt != 4 || got.LogTotal != 2 {
			t.Errorf("from %s: %+v", state, got)
		}
		want := Attempt{EndedAt: stamp(testNow), Outcome: outcomeRequeued, Actor: "ann", Reason: "because"}
		if last := got.Attempts[1]; last != want {
			t.Errorf("got %+v, want %+v", last, want)
		}
		again, err := transition(got, inJobs, testEvent(verbClaim))
		if err != nil || again.record.Attempt != 5 {
			t.Errorf("the next attempt is %d, %v, want 5", again.record.Attempt, err)
		}
	}
}

func TestTheTrailTellsWhoEndedAnAttempt(t *testing.T) {
	for v, outcome := range map[verb]string{
		verbComplete: outcomeCompleted, verbFail: outcomeFailed, verbSnooze: outcomeSnoozed, verbRelease: outcomeReleased,
		verbCancel: outcomeCancelled, verbBreak: outcomeBroken,
	} {
		r, _ := jobIn("claimed")
		n, err := transition(r, inJobs, testEvent(v))
		if err != nil {
			t.Fatal(err)
		}
		want := Attempt{
			Attempt: 4, Owner: "old", Token: 77, ClaimedAt: r.ClaimedAt, EndedAt: stamp(testNow), Outcome: outcome, Error: "oops",
			Actor: "ann", Reason: "because",
		}
		if v == verbComplete {
			want.Error = ""
		}
		if last := n.record.Attempts[1]; last != want {
			t.Errorf("%s: got %+v, want %+v", v, last, want)
		}
	}
	r, _ := jobIn("open, later")
	e := testEvent(verbCancel)
	e.err = ""
	n, err := transition(r, inJobs, e)
	if err != nil {
		t.Fatal(err)
	}
	// Nobody's attempt was cancelled: the latest one had ended before.
	want := Attempt{EndedAt: stamp(testNow), Outcome: outcomeCancelled, Actor: "ann", Reason: "because"}
	if last := n.record.Attempts[1]; last != want || n.record.Error != "because" {
		t.Errorf("got %+v, %q, want %+v", last, n.record.Error, want)
	}
}

// Whatever happens to a job that may start once, it starts once.
func TestAtMostOnceEndsInDoneOrDead(t *testing.T) {
	for _, v := range allVerbs {
		for _, counted := range []bool{false, true} {
			r, _ := jobIn("claimed")
			r.AtMostOnce = true
			e := testEvent(v)
			e.counted = counted
			n, err := transition(r, inJobs, e)
			if err != nil {
				continue
			}
			if n.where == inJobs {
				t.Errorf("%s, counted %v: the job is in jobs again", v, counted)
			}
			if n.where == inDead && n.record.Error == "" {
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
		r := newRecord(Params{
			ID: "x", MaxAttempts: dice.IntN(4), MaxLosses: dice.IntN(4), AtMostOnce: dice.IntN(4) == 0,
		}, 1, testNow)
		where, now, started := inJobs, testNow, 0
		for step := range 100 {
			now = now.Add(time.Duration(dice.IntN(3000)) * time.Millisecond)
			e := testEvent(allVerbs[dice.IntN(len(allVerbs))])
			e.now, e.at, e.counted, e.permanent = now, now.Add(time.Duration(dice.IntN(5)-2)*time.Second), dice.IntN(2) == 0, dice.IntN(8) == 0
			e.assigned = dice.IntN(2) == 0
			e.nonce, e.owner, e.err = fmt.Sprintf("%016x", step+1), fmt.Sprintf("s%d", dice.IntN(3)), ""
			if dice.IntN(2) == 0 {
				e.err = "oops"
			}
			before := *r
			n, err := transition(r, where, e)
			if !reflect.DeepEqual(*r, before) {
				t.Fatalf("seed %d, step %d: %s changed its input", seed, step, e.verb)
			}
			if err != nil {
				continue
			}
			checkInvariants(t, fmt.Sprintf("seed %d, step %d, %s", seed, step, e.verb), r, n)
			if e.verb == verbRequeue {
				started = 0
			}
			if n.claims() {
				started++
			}
			if r.AtMostOnce && started > 1 {
				t.Fatalf("seed %d, step %d: an at-most-once job was started again", seed, step)
			}
			if again, _ := transition(r, where, e); !reflect.DeepEqual(again, n) {
				t.Fatalf("seed %d, step %d: %s gives another record the second time", seed, step, e.verb)
			}
			r, where = n.record, n.where
			if t.Failed() {
				return
			}
		}
	}
}
