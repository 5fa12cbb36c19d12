package workqueue

import (
	"time"

	"github.com/leasekit/leasekit/internal/job"
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

// After returns the pause after the n-th failure, n from 1; it is never negative. Dice
// is a random number in [0, 1), which makes the function pure; any other counts as 0.5.
func (b Backoff) After(n int, dice float64) time.Duration { return job.Backoff(b).After(n, dice) }
