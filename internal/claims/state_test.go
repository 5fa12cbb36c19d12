package claims

import "testing"

// Each way out of each state, and nothing else.
func TestStateMachine(t *testing.T) {
	listed := map[state]map[event]state{
		claiming: {made: held, notMade: over, deserted: stray},
		held:     {closes: closing, closed: over, deserted: stray},
		closing:  {closed: over, open: held, unknown: stray, deserted: stray},
		stray:    {closed: over},
		over:     {},
	}
	for from := range stateNames {
		for ev := range eventNames {
			want, ok := listed[from][ev]
			if !ok {
				want = from
			}
			if got := from.after(ev); got != want {
				t.Errorf("%v, %v: got %v, want %v", from, ev, got, want)
			}
		}
	}
}

// From every state there is a way to the end, by one who is there to take it: the
// holder may desert, and then the reconciler closes.
func TestEveryStateCanEnd(t *testing.T) {
	for from := range stateNames {
		if got := from.after(deserted).after(closed); got != over {
			t.Errorf("%v, deserted and closed: got %v", from, got)
		}
	}
}
