package work

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/execjob"
	"github.com/leasekit/leasekit/internal/leasectl/jobs"
	"github.com/leasekit/leasekit/workqueue"
)

// retrySoon is the pause before the next attempt of a command that ended with 75.
const retrySoon = time.Second

// ended is how a command ended, with what the log and the library make of it.
type ended struct {
	outcome execjob.Outcome
	delay   time.Duration // before the next attempt
	dead    bool          // there is none
}

func (e *ended) Error() string { return e.outcome.Err.Error() }
func (e *ended) Unwrap() error { return e.outcome.Err }

// handle runs the command for one claim.
func (s *shift) handle(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
	j := c.Job()
	job := execjob.Job{
		ID: j.ID, Queue: j.Queue, Kind: j.Kind, Attempt: j.Attempt, Token: c.Token().String(), Session: j.Owner,
		IdempotencyKey: c.IdempotencyKey(), Payload: j.Payload, Checkpoint: j.Checkpoint, Trace: j.Trace,
	}
	if session, err := s.member.Session(ctx); err == nil && session.ID() == j.Owner {
		job.Reliable = session.Remaining
	}
	if limit := s.limit(j); limit > 0 {
		job.Deadline = time.Now().Add(limit)
	}
	if keys := job.Unfit(); len(keys) > 0 {
		s.log.line("warning: %s: its trace has a NUL byte, or more than 8 KiB, in %s, which no environment can carry: left out", attemptOf(j), strings.Join(keys, ", "))
	}
	out := s.runCommand(ctx, job)
	if errors.Is(out.Cause, execjob.ErrAborted) {
		return nil, s.giveBack(ctx, c)
	}
	if n := len(out.Result); n > workqueue.MaxResult {
		out.Verdict, out.Err = execjob.Dead, fmt.Errorf("result of %d bytes: at most %d are kept", n, workqueue.MaxResult)
	}
	if out.Verdict == execjob.Complete {
		return out.Result, nil
	}
	if errors.Is(out.Cause, workqueue.ErrAttemptTimeout) {
		out.Err = fmt.Errorf("%w: %w", workqueue.ErrAttemptTimeout, out.Err)
	}
	if errors.Is(out.Cause, execjob.ErrIdle) {
		out.Err = fmt.Errorf("%w: %w", out.Cause, out.Err)
	}
	return nil, judgeEnd(j, out)
}

// limit is how long an attempt may take: the job's own timeout, or that of work; 0 is for ever.
func (s *shift) limit(j *workqueue.Job) time.Duration {
	if j.Timeout > 0 && s.o.timeout > 0 {
		return min(j.Timeout, s.o.timeout)
	}
	return max(j.Timeout, s.o.timeout)
}

// runCommand runs the command for a job, within the timeout of work; the worker sees to the job's own.
func (s *shift) runCommand(ctx context.Context, job execjob.Job) execjob.Outcome {
	if s.o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, s.o.timeout, workqueue.ErrAttemptTimeout)
		defer cancel()
	}
	name := ""
	if s.o.prefix {
		name = cli.JobRef{Queue: job.Queue, ID: job.ID}.Name()
	}
	said := s.log.child(strings.TrimPrefix(name, "job/"))
	defer said.Close()
	exec := *s.exec
	exec.Stderr = said
	return exec.Run(ctx, job)
}

// judgeEnd turns a bad end into the error that tells the library what to do. The pause is drawn here, by the library's
// own rule, so that the log can tell it.
func judgeEnd(j *workqueue.Job, out execjob.Outcome) error {
	e := &ended{outcome: out, dead: out.Verdict == execjob.Dead || j.AtMostOnce || j.Failures+1 >= jobs.MaxAttempts(j)}
	switch {
	case out.Verdict == execjob.Dead:
		return workqueue.Permanent(e)
	case out.Verdict == execjob.RetrySoon:
		e.delay = retrySoon
	default:
		e.delay = workqueue.Backoff{}.After(j.Failures+1, rand.Float64())
	}
	return workqueue.RetryAfter(e.delay, e)
}

// abortTime bounds the giving back of a job after a second signal: somebody is waiting.
const abortTime = 2 * time.Second

// giveBack releases the claim of a command that an abort killed: that is not the job's fault and counts as nothing. The
// error that it returns is for a claim that could not be closed, and means the same.
func (s *shift) giveBack(ctx context.Context, c *workqueue.Claim) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTime)
	defer cancel()
	settlement := workqueue.Settlement{Outcome: "released", HandlerErr: execjob.ErrAborted}
	settlement.Err = c.Release(ctx)
	settlement.Refused = errors.Is(settlement.Err, coord.ErrFenced)
	s.settle(c.Job(), settlement) // the library does not tell of what the handler closes itself
	return workqueue.Snooze(time.Millisecond)
}

// hooks counts the jobs under way and writes the line of each that ended.
func (s *shift) hooks() workqueue.Hooks {
	return workqueue.Hooks{Claimed: s.claimed, Abandoned: s.log.abandoned, Settled: s.settle}
}

func (s *shift) claimed(j *workqueue.Job, _ time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[keyOf(j)] = true
	s.jobs.Add(1)
}

func (s *shift) settle(j *workqueue.Job, settlement workqueue.Settlement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open[keyOf(j)] {
		return // told before
	}
	s.log.settled(j, settlement)
	delete(s.open, keyOf(j))
	s.last = j.ID
	s.jobs.Done()
}

func (s *shift) running() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}
