package workqueue

import "time"

// Hooks let a program see what its worker does, without a dependency: for logs,
// metrics and traces. Each may be nil. They are called from the goroutine that
// works the job, so they must not block; several at once.
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
	// Err is why the write did not succeed; nil when it was accepted.
	Err error
}

// withDefaults fills in hooks that do nothing.
func (h Hooks) withDefaults() Hooks {
	if h.Claimed == nil {
		h.Claimed = func(*Job, time.Duration) {}
	}
	if h.Missed == nil {
		h.Missed = func() {}
	}
	if h.Abandoned == nil {
		h.Abandoned = func(*Job, error) {}
	}
	if h.Settled == nil {
		h.Settled = func(*Job, Settlement) {}
	}
	return h
}
