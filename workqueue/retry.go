package workqueue

import "time"

// Backoff is the pause before a failed job is tried again: Initial x Factor^(n-1)
// after the n-th failure, at most Max, give or take Jitter. The zero value is the
// default: 1 s, doubling, at most 10 min, 20 %.
type Backoff struct {
	// Initial is the pause after the first failure. 0 means 1 s.
	Initial time.Duration
	// Max bounds the pause. 0 means 10 min.
	Max time.Duration
	// Factor is the growth per failure. 0 means 2.
	Factor float64
	// Jitter is the share by which the pause varies, so that jobs that failed
	// together do not come back together. 0 means 0.2; negative means none.
	Jitter float64
}

func (b Backoff) withDefaults() Backoff {
	if b.Initial <= 0 {
		b.Initial = time.Second
	}
	if b.Max <= 0 {
		b.Max = 10 * time.Minute
	}
	if b.Factor < 1 {
		b.Factor = 2
	}
	switch {
	case b.Jitter == 0:
		b.Jitter = 0.2
	case b.Jitter < 0:
		b.Jitter = 0
	case b.Jitter > 1:
		b.Jitter = 1
	}
	return b
}

// After returns the pause after the n-th failure, n from 1. Dice is a random
// number in [0, 1), which makes the function pure.
func (b Backoff) After(n int, dice float64) time.Duration {
	b = b.withDefaults()
	d := float64(b.Initial)
	for i := 1; i < n && d < float64(b.Max); i++ {
		d *= b.Factor
	}
	d = min(d, float64(b.Max))
	return time.Duration(d * (1 + b.Jitter*(2*dice-1)))
}
