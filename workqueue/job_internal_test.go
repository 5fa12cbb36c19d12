package workqueue

import (
	"slices"
	"testing"
)

func TestViewNamesTheState(t *testing.T) {
	alive := func(string, int64) bool { return true }
	for _, tc := range []struct {
		state string
		lives func(string, int64) bool
		last  string
		want  State
	}{
		{"open, due", nobody, outcomeFailed, StateReady},
		{"open, later", nobody, outcomeFailed, StateRetry},
		{"open, later", nobody, outcomeLost, StateRetry},
		{"open, later", nobody, outcomeSnoozed, StateScheduled},
		{"open, later", nobody, "", StateScheduled},
		{"claimed", alive, "", StateClaimed},
		{"claimed", nobody, "", StateOrphan},
		{"done", nobody, "", StateDone},
		{"dead", nobody, "", StateDead},
	} {
		r, where := jobIn(tc.state)
		if r.Attempts = nil; tc.last != "" {
			r.Attempts = []Attempt{{Outcome: tc.last}}
		}
		j := r.view("q", where, 42, testNow, tc.lives)
		if j.State != tc.want {
			t.Errorf("%s after %q: got %s, want %s", tc.state, tc.last, j.State, tc.want)
		}
		if held := tc.state == "claimed"; held != (j.Owner != "") || held != (j.Token == 42) || j.Revision != 42 {
			t.Errorf("%s: owner %q, token %s, revision %d", tc.state, j.Owner, j.Token, j.Revision)
		}
	}
	r, where := jobIn("done")
	r.Outcome = outcomeCancelled
	if got := r.view("q", where, 1, testNow, nobody).State; got != StateCancelled {
		t.Errorf("got %s, want cancelled", got)
	}
	for _, s := range allStates {
		if over := slices.Contains([]State{StateDone, StateDead, StateCancelled}, s); s.Live() == over {
			t.Errorf("%s is live: %v", s, s.Live())
		}
	}
}
