package workqueue

import (
	"math"
	"strconv"
	"time"

	"github.com/leasekit/leasekit/coord"
)

// Backoff is the pause before a failed job is tried again: Initial x Factor^(n-1)
// after the n-th failure, at most Max, give or take Jitter. The zero value is the
// default: 1 s, doubling, at most 10 min, 20 %.
type Backoff struct {
	// Initial is the pause after the first failure, at most 100 years. 0 means 1 s.
	Initial time.Duration
	// Max bounds the pause, at most 100 years. 0 means 10 min.
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
	if !(b.Factor >= 1) { // so that NaN is none
		b.Factor = 2
	}
	switch {
	case b.Jitter < 0:
		b.Jitter = 0
	case b.Jitter > 1:
		b.Jitter = 1
	case !(b.Jitter > 0):
		b.Jitter = 0.2
	}
	return b
}

func (b Backoff) validate() error {
	float := func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
	switch {
	case b.Factor != 0 && !(b.Factor >= 1):
		return &coord.InputError{Field: "backoff factor", Value: float(b.Factor), Reason: "it must be at least 1; 0 means 2"}
	case !(b.Jitter <= 1):
		return &coord.InputError{Field: "backoff jitter", Value: float(b.Jitter), Reason: "it must be at most 1; 0 means 0.2, negative means none"}
	}
	return checkSpans(span{"backoff initial", b.Initial, 0, maxTimeout, "1s"}, span{"backoff max", b.Max, 0, maxTimeout, "10m"})
}

// After returns the pause after the n-th failure, n from 1; it is never negative. Dice
// is a random number in [0, 1), which makes the function pure; any other counts as 0.5.
func (b Backoff) After(n int, dice float64) time.Duration {
	b = b.withDefaults()
	d := min(float64(b.Initial)*math.Pow(b.Factor, float64(max(n, 1)-1)), float64(b.Max))
	if !(dice >= 0 && dice < 1) { // so that NaN is none
		dice = 0.5
	}
	d *= 1 + b.Jitter*(2*dice-1)
	if d >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(d)
}
