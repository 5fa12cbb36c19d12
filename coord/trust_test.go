package coord

import (
	"testing"
	"time"
)

func TestTrustRemaining(t *testing.T) {
	t0 := instant{mono: time.Hour, wall: time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)}
	later := func(mono, wall time.Duration) instant {
		return instant{mono: t0.mono + mono, wall: t0.wall.Add(wall)}
	}
	const s, ms = time.Second, time.Millisecond
	for _, tt := range []struct {
		name string
		ttl  time.Duration
		now  instant
		want time.Duration
	}{
		{"TTL 1: half of it is margin", 1 * s, t0, 500 * ms},
		{"TTL 2: the margin is its floor", 2 * s, t0, 1500 * ms},
		{"TTL 10: the margin is a tenth", 10 * s, t0, 9 * s},
		{"TTL 60", 60 * s, t0, 54 * s},
		{"time passes", 10 * s, later(4*s, 4*s), 5 * s},
		{"the window ends", 10 * s, later(9*s, 9*s), 0},
		{"and stays over", 10 * s, later(11*s, 11*s), -2 * s},
		{"suspended: wall +60s, mono +0", 10 * s, later(0, 60*s), 0},
		{"suspended after a while", 10 * s, later(3*s, 5*s), 0},
		{"wall runs ahead by a tenth: tolerated", 10 * s, later(3*s, 4*s), 6 * s},
		{"wall runs ahead by more", 10 * s, later(3*s, 4*s+ms), 0},
		{"a tenth of a short TTL", 1 * s, later(100*ms, 201*ms), 0},
		{"wall jumps back: harmless", 10 * s, later(3*s, -time.Hour), 6 * s},
		{"wall jumps back, window ends", 10 * s, later(9*s, -time.Hour), 0},
	} {
		if got := (trust{sent: t0, ttl: tt.ttl}).remaining(tt.now); got != tt.want {
			t.Errorf("%s: got %v left, want %v", tt.name, got, tt.want)
		}
	}
}

// The rhythm must leave room for failures: whatever the TTL, several renewals
// fit into the window, and the last answer can still be awaited in it.
func TestTrustRhythm(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, time.Minute, time.Hour} {
		w := trust{ttl: ttl}
		window := ttl - w.margin()
		if window <= 0 {
			t.Errorf("TTL %v: window is %v", ttl, window)
		}
		if ttl >= 2*time.Second && window < w.renewEvery()+2*w.answerTimeout() {
			t.Errorf("TTL %v: window %v has no room for a second try (every %v, answer %v)", ttl, window, w.renewEvery(), w.answerTimeout())
		}
		if w.answerTimeout() < 300*time.Millisecond || w.lookEvery() < 25*time.Millisecond {
			t.Errorf("TTL %v: answer timeout %v, look every %v: too short", ttl, w.answerTimeout(), w.lookEvery())
		}
	}
}

func TestSystemClockReadsBothClocks(t *testing.T) {
	clock := systemClock()
	a, b := clock(), clock()
	if b.mono < a.mono {
		t.Errorf("monotonic clock went back from %v to %v", a.mono, b.mono)
	}
	if a.wall != a.wall.Round(0) {
		t.Error("the wall reading carries a monotonic one, which hides a suspended machine")
	}
}
