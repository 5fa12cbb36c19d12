package workqueue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/queue"
	"github.com/leasekit/leasekit/internal/ready"
	"github.com/leasekit/leasekit/internal/usercode"
)

// answer is what a handler returned.
type answer struct {
	result []byte
	err    error
}

// work claims one candidate and works it to its end, or until its handler is
// abandoned.
func (w *Worker) work(s *coord.Session, c ready.Candidate) {
	began := time.Now()
	claim, err := w.q.take(w.hard, s, c)
	if claim == nil {
		w.slots.missed()
		if errors.Is(err, queue.ErrMissed) {
			w.hooks.Missed()
		} else if err != nil && !isSessionOver(err) && w.hard.Err() == nil {
			w.log.Warn("claim", zap.Error(err))
			w.slots.report(err)
		}
		w.vacate(c)
		return
	}
	w.slots.report(nil)
	w.begin(claim, c, time.Since(began))
}

// begin works a claim to its end, unless the worker has begun to stop since it asked
// for it.
func (w *Worker) begin(claim *Claim, from ready.Candidate, took time.Duration) {
	if w.soft.Err() != nil { //mutant:begin-after-stop
		w.decline(claim)
		w.slots.missed()
		w.vacate(from)
		return
	}
	w.hooks.Claimed(claim.job, took)
	w.attend(claim, from)
}

// decline gives back a claim that was under way when the worker began to stop.
func (w *Worker) decline(claim *Claim) {
	ctx, cancel := w.closingContext()
	defer cancel()
	e := claim.event(job.VerbRelease)
	e.Err, e.Unbegun = ErrDraining.Error(), true
	if err := claim.close(ctx, e, job.JoinedOps{}); !isClosed(err) {
		w.log.Warn("give back claim", zap.Error(err))
		claim.leaveTo(e)
	}
}

// attend runs the handler in the slot that its caller took, and closes the claim with
// what it returns. It returns when that is done, or the handler was abandoned, which
// keeps the slot.
func (w *Worker) attend(c *Claim, from ready.Candidate) {
	ctx, stop := c.Context(w.hard)
	defer stop()
	if t := w.timeout(c.job); t > 0 {
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		defer cancel(nil)
		timer := time.AfterFunc(t, func() { cancel(ErrAttemptTimeout) })
		defer timer.Stop()
	}
	began := time.Now()
	answers := make(chan answer, 1)
	w.q.core.Index.Handles(c.job.ID, 1)
	go func() {
		a := answer{err: errNoAnswer}
		defer func() { answers <- a }() // even when the handler ends its goroutine
		if c.payloadLost {
			a.err = errPayloadLost
			return
		}
		a.result, a.err = call(ctx, w.handler, c)
	}()
	select {
	case a := <-answers:
		w.finish(c, from, a, context.Cause(ctx), began)
		return
	case <-ctx.Done():
	}
	grace := time.NewTimer(w.graceAfter(context.Cause(ctx), c)) //mutant:handler-abandoned
	defer grace.Stop()
	select {
	case a := <-answers:
		w.finish(c, from, a, context.Cause(ctx), began)
	case <-grace.C:
		w.abandon(c, from, answers, context.Cause(ctx), began)
	}
}

// finish closes the claim of a handler that has returned.
func (w *Worker) finish(c *Claim, from ready.Candidate, a answer, cause error, began time.Time) {
	w.q.core.Index.Handles(c.job.ID, -1)
	w.slots.returned()
	defer w.closed(from)
	ctx, cancel := w.closingContext()
	defer cancel()
	w.close(ctx, c, a, cause, began)
}

// errNoAnswer is what a handler failed with that called runtime.Goexit.
var errNoAnswer = errors.New("the handler ended its goroutine without returning")

func (w *Worker) timeout(j *Job) time.Duration {
	if j.Timeout > 0 {
		return j.Timeout
	}
	return w.cfg.Timeout
}

// graceAfter is how long a handler may go on after its context ended. When only
// the session was lost it is short, so that the claim is given back before others
// can count its loss.
func (w *Worker) graceAfter(cause error, c *Claim) time.Duration {
	if isSessionOver(cause) {
		return min(w.cfg.Grace, c.session.TTL()/20) //mutant:grace-after-loss
	}
	return w.cfg.Grace
}

// abandon gives up the claim of a handler that does not stop. The handler's
// goroutine keeps its slot, and its job is left alone by this worker, until it
// returns; what it returns then is refused.
func (w *Worker) abandon(c *Claim, from ready.Candidate, answers <-chan answer, cause error, began time.Time) {
	w.slots.hung() // the worker can hold one job less
	w.log.Warn("handler ignores the end of its context", zap.String("job", c.job.ID), zap.Error(cause))
	ctx, cancel := w.closingContext()
	defer cancel()
	err := c.abandon(ctx, cause)
	w.hooks.Abandoned(c.job, cause)
	if err != nil && !errors.Is(err, coord.ErrFenced) {
		w.log.Warn("give up claim", zap.String("job", c.job.ID), zap.Error(err))
	}
	go func() {
		a := <-answers
		w.q.core.Index.Handles(c.job.ID, -1)
		ctx, cancel := context.WithTimeout(w.q.core.Life, closeTimeout)
		defer cancel()
		w.close(ctx, c, a, cause, began)
		w.q.core.Index.Leave(from)
		w.slots.ended()
	}()
}

// abandon gives the claim up under its fence and leaves it open for the late
// answer, which etcd then refuses: the refusal is evidence. Ctx bounds the wait alone.
func (c *Claim) abandon(ctx context.Context, cause error) error {
	switch {
	case c.isClosing():
		return nil // by its handler, which only goes on
	case isTaken(cause):
		c.over(cause)
		return nil
	}
	e := c.event(job.VerbRelease)
	e.Err = "abandoned: " + cause.Error()
	if errors.Is(cause, ErrAttemptTimeout) {
		e = c.event(job.VerbFail)
		e.Err = fmt.Sprintf("%v, and its handler did not stop", cause)
	}
	way, err := c.way(e, job.JoinedOps{})
	if err != nil {
		return err
	}
	way.Reopen = true
	if err = c.closer.Close(ctx, way); !isClosed(err) {
		c.given.Store(true) // behind a handler that still runs: what it returns comes too late
		c.leaveTo(e)
	}
	return err
}

// closeTimeout is how long a worker waits for a closing write; the write goes on
// behind.
const closeTimeout = 30 * time.Second

// closingContext bounds the wait for a closing write: by closeTimeout, and by what a
// worker that stops has left.
func (w *Worker) closingContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(w.last, closeTimeout)
}

// close ends the claim with a handler's answer. Ctx bounds the wait, and is never the
// handler's: what has no outcome by then is left to the session's book.
func (w *Worker) close(ctx context.Context, c *Claim, a answer, cause error, began time.Time) {
	// A closing write of the handler's own, whose caller has left it, comes first.
	if err := c.closer.Wait(ctx); refusedForGood(err) && a.err == nil {
		a.err = err
	}
	e := c.closing(a, cause)
	settled := Settlement{Outcome: e.Outcome(), Ran: time.Since(began), HandlerErr: a.err}
	if a.err != nil && isTaken(cause) && !c.isClosing() {
		// The job is not ours any more and nothing is to be handed in: a write would
		// only be refused.
		c.over(cause)
		settled.Refused, settled.Err = true, cause
		c.logTaken(cause, a.err)
		w.hooks.Settled(c.job, settled)
		return
	}
	c.endBy(e) //mutant:unknown-handed-in
	err := c.close(ctx, e, job.JoinedOps{})
	switch {
	case errors.Is(err, ErrSettled) && !c.given.Load():
		return // the handler closed it itself
	case errors.Is(err, coord.ErrFenced), errors.Is(err, ErrSettled):
		settled.Refused, settled.Err = true, err
	case err != nil:
		settled.Err = err
		w.log.Warn("close claim", zap.Error(err))
		if c.leaveTo(e) && !errors.Is(err, coord.ErrUnknown) {
			settled.Err = fmt.Errorf("%w: it is handed in again: %w", coord.ErrUnknown, err)
		}
	}
	w.hooks.Settled(c.job, settled)
}

// isTaken tells that a claim was taken away by somebody else.
func isTaken(cause error) bool {
	return errors.Is(cause, ErrCancelled) || errors.Is(cause, coord.ErrFenced)
}

// closing chooses the transition for a handler's answer.
func (c *Claim) closing(a answer, cause error) job.Event {
	if a.err == nil {
		if err := job.CheckSize("result", len(a.result), MaxResult); err != nil {
			return c.failure(Permanent(err))
		}
		e := c.event(job.VerbComplete)
		e.Result = a.result
		return e
	}
	if errors.Is(cause, ErrDraining) || isSessionOver(cause) {
		e := c.event(job.VerbRelease)
		e.Err = usercode.TextOf(a.err)
		return e
	}
	if errors.Is(cause, ErrAttemptTimeout) && !matches(a.err, ErrAttemptTimeout) {
		return c.failure(fmt.Errorf("%w: %w", cause, a.err))
	}
	return c.failure(a.err)
}

// vacate frees a slot: nothing of its job runs here any more.
func (w *Worker) vacate(c ready.Candidate) {
	w.q.core.Index.Leave(c)
	w.slots.vacate()
}

// closed is over when etcd has a job's result, or never will have it from here.
func (w *Worker) closed(c ready.Candidate) {
	w.q.core.Index.Leave(c)
	w.slots.closed()
}
