package workqueue

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/leasekit/leasekit/coord"
)

// State is what a user sees of where a job stands.
type State string

// The states of a job. Ready, scheduled, retry, claimed and orphan jobs are live.
const (
	// StateReady jobs can be claimed now.
	StateReady State = "ready"
	// StateScheduled jobs wait for their RunAt.
	StateScheduled State = "scheduled"
	// StateRetry jobs wait for their next attempt after a failure or a loss.
	StateRetry State = "retry"
	// StateClaimed jobs have an owner whose session lives.
	StateClaimed State = "claimed"
	// StateOrphan jobs have an owner whose session is gone: claimable again.
	StateOrphan State = "orphan"
	// StateDone jobs were completed.
	StateDone State = "done"
	// StateDead jobs failed for good and wait for somebody to act.
	StateDead State = "dead"
	// StateCancelled jobs were cancelled.
	StateCancelled State = "cancelled"
)

// Live tells whether a job in this state still has to be worked.
func (s State) Live() bool {
	switch s {
	case StateDone, StateDead, StateCancelled:
		return false
	}
	return true
}

// The outcomes in the audit trail of a job, and of a job that is over.
const (
	outcomeCompleted = "completed" // the result was accepted
	outcomeFailed    = "failed"    // the handler returned an error, panicked, or timed out
	outcomeLost      = "lost"      // the owner's session ended first
	outcomeReleased  = "released"  // given back, counted as nothing
	outcomeSnoozed   = "snoozed"   // put off by the handler, counted as nothing
	outcomeCancelled = "cancelled" // by the handler or by somebody else
	outcomeDead      = "dead"      // failed for good
	outcomeRequeued  = "requeued"  // brought back by somebody
	outcomeBroken    = "broken"    // the claim was broken by somebody
	outcomeBuried    = "buried"    // moved to dead by somebody
	outcomeEdited    = "edited"    // described anew by somebody
	outcomeMoved     = "moved"     // to another queue by somebody
)

// Attempt is one entry of a job's audit trail.
type Attempt struct {
	// Attempt is the ordinal, from 1; 0 when the entry is not about an attempt.
	Attempt int `json:"attempt"`
	// Owner is the session that held the claim.
	Owner string `json:"owner,omitempty"`
	// Token is the claim's fencing token.
	Token coord.Token `json:"token,omitempty"`
	// ClaimedAt is when the attempt began, by its owner's clock.
	ClaimedAt time.Time `json:"claimed_at,omitzero"`
	// EndedAt is when it ended, by the clock of whoever ended it.
	EndedAt time.Time `json:"ended_at,omitzero"`
	// Outcome is how it ended: completed, failed, lost, released, snoozed,
	// cancelled, requeued, broken, buried, edited or moved.
	Outcome string `json:"outcome"`
	// Error is the failure's text, cut at 1 KiB, keeping the end.
	Error string `json:"error,omitempty"`
	// Actor is whoever intervened.
	Actor string `json:"actor,omitempty"`
	// Reason is why they did.
	Reason string `json:"reason,omitempty"`
	// From is the queue that a moved job came from.
	From string `json:"from,omitempty"`
	// Counted tells that a loss counted against the job.
	Counted bool `json:"counted,omitempty"`
	// Repeated is how many equal entries before this one were collapsed into it.
	Repeated int `json:"repeated,omitempty"`
}

// repeats tells whether b says nothing that a did not say, apart from when.
func (a Attempt) repeats(b Attempt) bool {
	switch b.Outcome {
	case outcomeSnoozed, outcomeReleased:
		return a.Outcome == b.Outcome && a.Owner == b.Owner && a.Error == b.Error && a.Actor == b.Actor && a.Reason == b.Reason
	}
	return false
}

// Job is a snapshot of one job. It does not change when the job does.
type Job struct {
	// Queue and ID name the job; Born tells it from an earlier one of that ID.
	Queue, ID, Born string
	// State is where the job stood when the snapshot was taken.
	State State
	// Kind selects the handler; it may be empty.
	Kind string
	// Payload is exactly what was enqueued; nil in listings when it lies beside
	// the record.
	Payload []byte
	// PayloadSize is its size in bytes, wherever it lies.
	PayloadSize int
	// Labels are free, for people and filters; Trace carries trace context.
	Labels, Trace map[string]string
	// Priority: higher goes first.
	Priority int
	// RunAt is when the job may be claimed, zero for at once.
	RunAt time.Time
	// Timeout bounds one attempt; 0 leaves it to the worker.
	Timeout time.Duration
	// MaxAttempts is how many failures bury the job, MaxLosses how many counted
	// losses.
	MaxAttempts, MaxLosses int
	// AtMostOnce tells that the job is never started twice.
	AtMostOnce bool
	// Attempt is the ordinal of the latest attempt, 0 before the first.
	// Failures and Losses count apart.
	Attempt, Failures, Losses int
	// Owner is the session that holds the claim; empty unless the job is claimed.
	Owner string
	// Token is the claim's fencing token; zero unless the job is claimed.
	Token coord.Token
	// Revision is the mod revision of the job's key: pass it in [By] to act only
	// on what was seen.
	Revision int64
	// When, by the writers' clocks; zero when it has not happened.
	EnqueuedAt, ClaimedAt, FinishedAt time.Time
	// Result is the accepted result of a done job.
	Result []byte
	// Error is why a job is dead or was cancelled.
	Error string
	// Progress and Checkpoint are the latest that were reported, where the
	// snapshot includes them.
	Progress, Checkpoint []byte
	// Attempts is the audit trail, oldest first, its last 20 entries.
	Attempts []Attempt
	// LogTotal is how many entries the trail had in all.
	LogTotal int
}

// IdempotencyKey names the job's effect: the same for every attempt, another for
// a later job of the same ID. Give it to systems outside etcd.
func (j *Job) IdempotencyKey() string { return j.ID + "-" + j.Born }

// place is the directory that a record is in.
type place int

const (
	inJobs place = iota
	inDone
	inDead
)

// view makes the public snapshot. It shares no memory with the record: a handler
// may change what it was given, and the record may be written again afterwards.
// ownerLives is asked only for claimed jobs.
func (r *record) view(queue string, where place, rev int64, now time.Time, ownerLives func(sid string, rev int64) bool) *Job {
	j := &Job{
		Queue: queue, ID: r.ID, Born: r.Born, Kind: r.Kind,
		Payload: bytes.Clone(r.payload()), PayloadSize: r.Beside, Labels: maps.Clone(r.Labels), Trace: maps.Clone(r.Trace),
		Priority: r.Priority, RunAt: r.RunAt, Timeout: time.Duration(r.TimeoutMS) * time.Millisecond,
		MaxAttempts: r.maxAttempts(), MaxLosses: r.maxLosses(), AtMostOnce: r.AtMostOnce,
		Attempt: r.Attempt, Failures: r.Failures, Losses: r.Losses, Revision: rev,
		EnqueuedAt: r.EnqueuedAt, ClaimedAt: r.ClaimedAt, FinishedAt: r.FinishedAt,
		Result: bytes.Clone(r.result()), Error: r.Error, Attempts: slices.Clone(r.Attempts), LogTotal: r.LogTotal,
	}
	if r.Beside == 0 {
		j.PayloadSize = len(j.Payload)
	}
	j.State = r.state(where, now, ownerLives)
	if r.claimed() && where == inJobs {
		j.Owner, j.Token = r.Owner, coord.Token(rev)
	}
	return j
}

func (r *record) state(where place, now time.Time, ownerLives func(string, int64) bool) State {
	switch {
	case where == inDead:
		return StateDead
	case where == inDone && r.Outcome == outcomeCancelled:
		return StateCancelled
	case where == inDone:
		return StateDone
	case r.claimed() && ownerLives(r.Owner, r.OwnerRev):
		return StateClaimed
	case r.claimed():
		return StateOrphan
	case r.due(now):
		return StateReady
	}
	if r.retrying(now) {
		return StateRetry
	}
	return StateScheduled
}

// retrying tells whether an open job waits for its next attempt after a failure or a loss.
func (r *record) retrying(now time.Time) bool {
	n := len(r.Attempts)
	if r.claimed() || r.due(now) || n == 0 {
		return false
	}
	return r.Attempts[n-1].Outcome == outcomeFailed || r.Attempts[n-1].Outcome == outcomeLost
}

// fieldNames lists the JSON names of a struct.
func fieldNames[T any]() map[string]struct{} {
	names := map[string]struct{}{}
	t := reflect.TypeFor[T]()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "" {
			names[name] = struct{}{}
		}
	}
	return names
}
