package history

import (
	"testing"

	"github.com/leasekit/leasekit/workqueue"
)

func TestForgiven(t *testing.T) {
	t.Parallel()
	lost := func(attempt int, counted bool) workqueue.Attempt {
		return workqueue.Attempt{Attempt: attempt, Outcome: "lost", Counted: counted}
	}
	from := &jobRecord{Losses: 1, Attempts: []workqueue.Attempt{lost(1, false), lost(2, true)}}
	for _, test := range []struct {
		name   string
		to     []workqueue.Attempt
		losses int
	}{
		{"taken back", []workqueue.Attempt{lost(1, false), lost(2, false), lost(3, false)}, 0},
		{"kept", []workqueue.Attempt{lost(1, false), lost(2, true), lost(3, true)}, 1},
		{"another ending", []workqueue.Attempt{lost(1, false), lost(2, false), {Attempt: 3, Outcome: "failed"}}, 1},
		{"another entry", []workqueue.Attempt{lost(1, false), lost(4, false), lost(3, false)}, 1},
	} {
		if got := forgiven(from, &jobRecord{Attempts: test.to}); got.Losses != test.losses || from.Losses != 1 || !from.Attempts[1].Counted {
			t.Errorf("%s: got %d losses, want %d", test.name, got.Losses, test.losses)
		}
	}
}
