package job

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/leasekit/leasekit/coord"
)

func TestBackoff(t *testing.T) {
	for _, tc := range []struct {
		b    Backoff
		n    int
		dice float64
		want time.Duration
	}{
		{Backoff{}, 1, 0.5, time.Second},
		{Backoff{}, 2, 0.5, 2 * time.Second},
		{Backoff{}, 4, 0.5, 8 * time.Second},
		{Backoff{}, 1, 0, 800 * time.Millisecond},
		{Backoff{}, 11, 0.5, 10 * time.Minute},
		{Backoff{}, math.MaxInt, 0.5, 10 * time.Minute},
		{Backoff{}, 0, 0.5, time.Second},
		{Backoff{}, -5, 0.5, time.Second},
		{Backoff{Jitter: -1}, 3, 0.99, 4 * time.Second},
		{Backoff{Jitter: 7}, 1, 0, 0},
		{Backoff{Initial: time.Minute, Max: time.Second}, 1, 0.5, time.Second},
		{Backoff{Factor: 1}, math.MaxInt, 0.5, time.Second},
		{Backoff{Factor: 1.5, Initial: 2 * time.Second}, 3, 0.5, 4500 * time.Millisecond},
		{Backoff{Factor: math.NaN(), Jitter: math.NaN()}, 2, 0.5, 2 * time.Second},
		{Backoff{Factor: math.Inf(1)}, 2, 0.5, 10 * time.Minute},
		{Backoff{Max: math.MaxInt64}, 100, 0.99, math.MaxInt64},
		{Backoff{Max: math.MaxInt64, Jitter: 1}, 100, math.Inf(-1), math.MaxInt64},
		{Backoff{}, 1, math.NaN(), time.Second},
		{Backoff{Jitter: 1}, 1, 1e300, time.Second},
	} {
		if got := tc.b.After(tc.n, tc.dice); got != tc.want {
			t.Errorf("%+v after %d, dice %v: got %s, want %s", tc.b, tc.n, tc.dice, got, tc.want)
		}
	}
	for n := 1; n < 20; n++ {
		middle := Backoff{}.After(n, 0.5)
		for range 100 {
			got := Backoff{}.After(n, rand.Float64())
			if got < middle*8/10 || got > middle*12/10 {
				t.Fatalf("after %d: %s is not within a fifth of %s", n, got, middle)
			}
		}
	}
}

func TestBackoffValidates(t *testing.T) {
	for _, b := range []Backoff{{Initial: -1}, {Max: -1}, {Factor: 0.5}, {Factor: -1}, {Factor: math.NaN()}, {Jitter: 1.1}, {Jitter: math.NaN()}} {
		if err := b.Validate(); !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("%+v: got %v", b, err)
		}
	}
	for _, b := range []Backoff{{}, {Initial: 1, Max: 1, Factor: 1, Jitter: 1}, {Jitter: -1}} {
		if err := b.Validate(); err != nil {
			t.Errorf("%+v: %v", b, err)
		}
	}
}
