package job

import "time"

// state is where a job stands, as far as its record and its owner's session tell.
type state string

// Ready, scheduled, retry, claimed and orphan jobs are live.
const (
	StateReady     state = "ready"
	StateScheduled state = "scheduled"
	StateRetry     state = "retry"
	StateClaimed   state = "claimed"
	StateOrphan    state = "orphan"
	StateDone      state = "done"
	StateDead      state = "dead"
	StateCancelled state = "cancelled"
)

// Place is the directory that a record is in.
type Place int

// State tells where a job stands; ownerLives is asked only for claimed jobs.
func (r *Record) State(where Place, now time.Time, ownerLives func(string, int64) bool) state {
	switch {
	case where == InDead:
		return StateDead
	case where == InDone && r.Outcome == OutcomeCancelled:
		return StateCancelled
	case where == InDone:
		return StateDone
	case r.Claimed() && ownerLives(r.Owner, r.OwnerRev):
		return StateClaimed
	case r.Claimed():
		return StateOrphan
	case r.Due(now):
		return StateReady
	}
	if r.retrying(now) {
		return StateRetry
	}
	return StateScheduled
}

// retrying tells whether an open job waits for its next attempt after a failure or a loss.
func (r *Record) retrying(now time.Time) bool {
	n := len(r.Attempts)
	if r.Claimed() || r.Due(now) || n == 0 {
		return false
	}
	return r.Attempts[n-1].Outcome == OutcomeFailed || r.Attempts[n-1].Outcome == OutcomeLost
}

// The directories of a queue.
const (
	InJobs Place = iota // live
	InDone              // done or cancelled
	InDead              // dead letters
)
