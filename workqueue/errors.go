package workqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/job"
)

// What a call may meet in the queue.
var (
	// ErrEmpty means that nothing is claimable now.
	ErrEmpty = errors.New("nothing to claim")
	// ErrNotFound means that no live, done or dead job has that ID.
	ErrNotFound = job.ErrNotFound
	// ErrExists matches every [ExistsError].
	ErrExists = job.ErrExists
	// ErrConflict means that the job, or the queue's config, moved since it was looked
	// at, so nothing was changed. Look again.
	ErrConflict = job.ErrConflict
	// ErrNotApplicable means that the job is not where the action needs it, such
	// as a requeue of a live job.
	ErrNotApplicable = job.ErrNotApplicable
	// ErrBacklogFull means that etcd's database nears its quota: enqueue again when
	// it has shrunk, by compaction and defragmentation or by fewer waiting jobs.
	ErrBacklogFull = job.ErrBacklogFull
	// ErrUndecodable means that a record cannot be read; it blocks only itself.
	ErrUndecodable = job.ErrUndecodable
	// ErrNewer means that a record is undecodable because a newer program wrote it:
	// nothing is wrong with it. It matches ErrUndecodable too.
	ErrNewer = job.ErrNewer
)

// Why a claim or its context ended.
var (
	// ErrCancelled is the cause of a claim's context when the job is known to have been
	// cancelled under that claim. Else it is [coord.ErrFenced].
	ErrCancelled = errors.New("the job was cancelled")
	// ErrSettled means that the claim was closed before: a claim closes once.
	ErrSettled = errors.New("the claim is settled already")
	// ErrDraining is the cause of a handler's context when its worker stops and
	// the time for draining is over.
	ErrDraining = errors.New("the worker is stopping")
	// ErrAttemptTimeout is the cause of a handler's context when its attempt took
	// too long. It matches context.DeadlineExceeded too.
	ErrAttemptTimeout error = attemptTimeout{}
)

type attemptTimeout struct{}

func (attemptTimeout) Error() string        { return "the attempt took longer than its timeout" }
func (attemptTimeout) Is(target error) bool { return target == context.DeadlineExceeded }

// ExistsError tells that an enqueue found a job of its ID. It matches
// [ErrExists].
type ExistsError struct {
	// Job is the one that exists.
	Job *Job
}

// Error names the job and where it stands.
func (e *ExistsError) Error() string {
	return fmt.Sprintf("job %s exists in queue %s: it is %s, at revision %d", e.Job.ID, e.Job.Queue, e.Job.State, e.Job.Revision)
}

// Is makes errors.Is(err, ErrExists) true.
func (e *ExistsError) Is(target error) bool { return target == ErrExists }

// outcomeError is an error of a handler that says what becomes of the job.
type outcomeError struct {
	outcome job.Verb
	err     error
	delay   time.Duration // retry after, snooze
	final   bool          // permanent
	unbegun bool          // no handler was there to begin with
}

func (e *outcomeError) Error() string {
	if e.err != nil {
		return e.err.Error()
	}
	if e.outcome == job.VerbSnooze {
		return "snoozed for " + e.delay.String()
	}
	return string(e.outcome)
}

func (e *outcomeError) Unwrap() error { return e.err }

// Permanent makes err bury the job at once: return it from a handler when no
// further attempt can succeed.
func Permanent(err error) error {
	return &outcomeError{outcome: job.VerbFail, err: cmp.Or(err, errors.New("failed for good")), final: true}
}

// RetryAfter makes err count as a failed attempt, with the next one after d
// instead of after the backoff.
func RetryAfter(d time.Duration, err error) error {
	return &outcomeError{outcome: job.VerbFail, err: cmp.Or(err, errors.New("retry after "+d.String())), delay: max(d, time.Millisecond)}
}

// Snooze puts the job off for d without counting anything: return it from a
// handler whose time has not come.
func Snooze(d time.Duration) error { return &outcomeError{outcome: job.VerbSnooze, delay: max(d, 0)} }

// Cancel ends the job as cancelled, for reason err: return it from a handler that
// finds its job pointless.
func Cancel(err error) error {
	return &outcomeError{outcome: job.VerbCancel, err: cmp.Or(err, errors.New("cancelled by its handler"))}
}

// isSessionOver tells that an error or cause comes from the session's end.
func isSessionOver(err error) bool {
	return errors.Is(err, coord.ErrSessionLost) || errors.Is(err, coord.ErrClosed)
}
