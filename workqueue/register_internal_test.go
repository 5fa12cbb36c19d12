package workqueue

import "testing"

// A worker registers again when a later change than its own write shows, and where it does
// not know what it wrote; not for what is older, nor when it leaves: its grave is its own.
func TestWhenAWorkerRegistersAgain(t *testing.T) {
	for _, tc := range []struct {
		name     string
		r        *registration
		capacity int
		seen     int64
		want     bool
	}{
		{"as it was written", &registration{told: told{jobs: 7, at: 5}}, 7, 5, true},
		{"the mirror is behind", &registration{told: told{jobs: 7, at: 5}}, 7, 3, true},
		{"taken away", &registration{told: told{jobs: 7, at: 5}}, 7, 6, false},
		{"taken away, in mode claim", &registration{told: told{jobs: 7, at: 5}}, -1, 6, false},
		{"another capacity", &registration{told: told{jobs: 7, at: 5}}, 6, 5, false},
		{"another capacity, in mode claim", &registration{told: told{jobs: 7, at: 5}}, -1, 5, true},
		{"unsure", &registration{told: told{jobs: -1}}, 7, 0, false},
		{"unsure, in mode claim", &registration{told: told{jobs: -1}}, -1, 0, false},
	} {
		if got := tc.r.isTold(tc.capacity, tc.seen); got != tc.want {
			t.Errorf("%s: told %v, want %v", tc.name, got, tc.want)
		}
	}
	r := &registration{told: told{jobs: 7, at: 5, leaving: true}}
	if (&Worker{}).keepRegistered(r, false); r.telling {
		t.Error("a worker that leaves registers again")
	}
}
