package ready

import (
	"testing"
	"time"

	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
)

func TestCutOrPill(t *testing.T) {
	start := time.Now()
	const ttl = 10 * time.Second
	deaths := func(of int, at ...time.Duration) (d []death) {
		for i, a := range at {
			d = append(d, death{sid: string(rune('a' + i)), at: start.Add(a), of: of - i})
		}
		return d
	}
	for _, tc := range []struct {
		name   string
		deaths []death
		sid    string
		want   bool
	}{
		{"one of one", deaths(1, 0), "a", false},
		{"two of two", deaths(2, 0, 0), "a", false},
		{"three of six", deaths(6, 0, time.Second, 2*time.Second), "a", true},
		{"the last of three of six", deaths(6, 0, time.Second, 2*time.Second), "c", true},
		{"three of seven", deaths(7, 0, time.Second, 2*time.Second), "a", false},
		{"a pill that goes from one to the next", deaths(4, 0, 8*time.Second, 16*time.Second), "b", false},
		{"long before a cut", deaths(9, 0, 60*time.Second, 61*time.Second, 62*time.Second, 63*time.Second), "a", false},
		{"nobody saw it end", deaths(3, 0, 0, 0), "z", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := &Index{alive: alive{deaths: tc.deaths}}
			if got := x.inMassLoss(tc.sid, ttl); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

// The first victims of a cut are counted before anybody can know; that is taken back,
// once.
func TestForgive(t *testing.T) {
	now := time.Now()
	space, err := keyspace.New("")
	if err != nil {
		t.Fatal(err)
	}
	x := NewIndex(space, "q")
	x.deaths = []death{{"a", now, 3}, {"b", now, 2}, {"c", now, 1}}
	r := &job.Record{Losses: 2, Attempts: []job.Attempt{{Owner: "a", Counted: true}, {Owner: "x", Counted: true}}}
	got := x.forgive(r, time.Second)
	if got.Losses != 1 || got.Attempts[0].Counted || !got.Attempts[1].Counted {
		t.Errorf("got %d losses, %+v", got.Losses, got.Attempts)
	}
	if r.Losses != 2 || !r.Attempts[0].Counted {
		t.Error("the record that others see was changed")
	}
	if again := x.forgive(got, time.Second); again.Losses != 1 {
		t.Errorf("forgiven twice: %d losses", again.Losses)
	}
}
