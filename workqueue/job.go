package workqueue

import (
	"bytes"
	"maps"
	"time"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/job"
)

// State is what a user sees of where a job stands.
type State string

// The states of a job. Ready, scheduled, retry, claimed and orphan jobs are live.
const (
	// StateReady jobs can be claimed now.
	StateReady = State(job.StateReady)
	// StateScheduled jobs wait for their RunAt.
	StateScheduled = State(job.StateScheduled)
	// StateRetry jobs wait for their next attempt after a failure or a loss.
	StateRetry = State(job.StateRetry)
	// StateClaimed jobs have an owner whose session lives.
	StateClaimed = State(job.StateClaimed)
	// StateOrphan jobs have an owner whose session is gone: claimable again.
	StateOrphan = State(job.StateOrphan)
	// StateDone jobs were completed.
	StateDone = State(job.StateDone)
	// StateDead jobs failed for good and wait for somebody to act.
	StateDead = State(job.StateDead)
	// StateCancelled jobs were cancelled.
	StateCancelled = State(job.StateCancelled)
)

// Live tells whether a job in this state still has to be worked.
func (s State) Live() bool {
	switch s {
	case StateDone, StateDead, StateCancelled:
		return false
	}
	return true
}

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

// view makes the public snapshot. It shares no memory with the record: a handler
// may change what it was given, and the record may be written again afterwards.
// ownerLives is asked only for claimed jobs.
func view(r *job.Record, queue string, where job.Place, rev int64, now time.Time, ownerLives func(sid string, rev int64) bool) *Job {
	j := &Job{
		Queue: queue, ID: r.ID, Born: r.Born, Kind: r.Kind,
		Payload: bytes.Clone(r.PayloadBytes()), PayloadSize: r.Beside, Labels: maps.Clone(r.Labels), Trace: maps.Clone(r.Trace),
		Priority: r.Priority, RunAt: r.RunAt, Timeout: time.Duration(r.TimeoutMS) * time.Millisecond,
		MaxAttempts: r.AttemptLimit(), MaxLosses: r.LossLimit(), AtMostOnce: r.AtMostOnce,
		Attempt: r.Attempt, Failures: r.Failures, Losses: r.Losses, Revision: rev,
		EnqueuedAt: r.EnqueuedAt, ClaimedAt: r.ClaimedAt, FinishedAt: r.FinishedAt,
		Result: bytes.Clone(r.ResultBytes()), Error: r.Error, Attempts: attemptsOf(r.Attempts), LogTotal: r.LogTotal,
	}
	if r.Beside == 0 {
		j.PayloadSize = len(j.Payload)
	}
	j.State = State(r.State(where, now, ownerLives))
	if r.Claimed() && where == job.InJobs {
		j.Owner, j.Token = r.Owner, coord.Token(rev)
	}
	return j
}

// attemptsOf makes the public trail.
func attemptsOf(log []job.Attempt) []Attempt {
	var out []Attempt
	for _, a := range log {
		out = append(out, Attempt{
			Attempt: a.Attempt, Owner: a.Owner, Token: coord.Token(a.Token), ClaimedAt: a.ClaimedAt, EndedAt: a.EndedAt, Outcome: a.Outcome,
			Error: a.Error, Actor: a.Actor, Reason: a.Reason, From: a.From, Counted: a.Counted, Repeated: a.Repeated,
		})
	}
	return out
}
