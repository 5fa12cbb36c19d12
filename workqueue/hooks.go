package workqueue

import (
	"time"

	"go.uber.org/zap"

	"github.com/leasekit/leasekit/internal/usercode"
)

// Hooks let a program see what its worker does, without a dependency: for logs,
// metrics and traces. Each may be nil. They are called from the goroutine that
// works the job, so they must not block; several at once. A panic of one is logged, and
// the job goes on.
type Hooks struct {
	// Claimed: a claim was made, which took that long; its handler starts.
	Claimed func(j *Job, took time.Duration)
	// Missed: a claim lost its race to another process.
	Missed func()
	// Abandoned: a handler did not stop in time and still runs; its claim was given
	// up, or that was tried. Settled follows when it returns.
	Abandoned func(j *Job, cause error)
	// Settled: the handler returned and its claim was closed, or that was tried.
	Settled func(j *Job, s Settlement)
}

// Settlement is how an attempt ended.
type Settlement struct {
	// Outcome is what the closing write wanted: completed, failed, snoozed,
	// cancelled or released.
	Outcome string
	// Ran is how long the handler ran.
	Ran time.Duration
	// HandlerErr is what the handler returned.
	HandlerErr error
	// Refused tells that the write was refused, because the claim was no longer
	// current: a late result.
	Refused bool
	// Err is why the write did not succeed; nil when it was accepted. Where it matches
	// [coord.ErrUnknown], the worker goes on with the write for as long as the session
	// lives.
	Err error
}

// guarded returns hooks that are never nil and never panic: what one of them does must
// not cost its process, or the job, which goes on.
func (h Hooks) guarded(log *zap.Logger) Hooks {
	return Hooks{
		Claimed: func(j *Job, took time.Duration) {
			if h.Claimed != nil {
				usercode.Hook(log, "Claimed", func() { h.Claimed(j, took) })
			}
		},
		Missed: func() {
			if h.Missed != nil {
				usercode.Hook(log, "Missed", h.Missed)
			}
		},
		Abandoned: func(j *Job, cause error) {
			if h.Abandoned != nil {
				usercode.Hook(log, "Abandoned", func() { h.Abandoned(j, cause) })
			}
		},
		Settled: func(j *Job, s Settlement) {
			if h.Settled != nil {
				usercode.Hook(log, "Settled", func() { h.Settled(j, s) })
			}
		},
	}
}
