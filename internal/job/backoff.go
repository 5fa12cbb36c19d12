package job

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/leasekit/leasekit/internal/fault"
)

// Backoff is the pause before a failed job is tried again: the public type explains it.
type Backoff struct {
	Initial, Max   time.Duration
	Factor, Jitter float64
}

// validateSaved is validate for a Backoff that is kept as JSON, and that nobody filled
// in piece by piece.
func (b Backoff) validateSaved() error {
	if err := b.Validate(); err != nil {
		return err
	}
	for field, f := range map[string]float64{"backoff factor": b.Factor, "backoff jitter": b.Jitter} {
		if math.IsInf(f, 0) {
			return &fault.InputError{Field: field, Value: fmt.Sprint(f), Reason: "it is a finite number"}
		}
	}
	if full := b.withDefaults(); full.Initial > full.Max {
		return &fault.InputError{Field: "backoff max", Value: full.Max.String(), Reason: fmt.Sprintf("it is less than the initial %s; 0 means 10m", full.Initial)}
	}
	return nil
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

// Validate refuses what is no backoff.
func (b Backoff) Validate() error {
	float := func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
	switch {
	case b.Factor != 0 && !(b.Factor >= 1):
		return &fault.InputError{Field: "backoff factor", Value: float(b.Factor), Reason: "it must be at least 1; 0 means 2"}
	case !(b.Jitter <= 1):
		return &fault.InputError{Field: "backoff jitter", Value: float(b.Jitter), Reason: "it must be at most 1; 0 means 0.2, negative means none"}
	}
	return CheckSpans(Span{"backoff initial", b.Initial, 0, MaxTimeout, "1s"}, Span{"backoff max", b.Max, 0, MaxTimeout, "10m"})
}

// After is the pause after the n-th failure, n from 1; it is never negative. Dice is a
// random number in [0, 1), which makes the function pure; any other counts as 0.5.
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
