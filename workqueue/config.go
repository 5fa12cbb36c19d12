package workqueue

import (
	"context"
	"fmt"
	"time"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/job"
)

// By says who intervenes, and why: it goes into the job's audit trail.
type By struct {
	// Actor is who acts: a person, a host, a program.
	Actor string
	// Reason is why, in a few words.
	Reason string
	// Revision guards the action: it happens only if the job, or the queue's
	// config, still has the mod revision that was seen. 0 takes what is there now.
	Revision int64
	// BreakClaim lets an edit, a move or a deletion take a claimed job from its owner,
	// who is fenced; without it they refuse one. Other actions do not ask.
	BreakClaim bool
}

// inner is who acts, as the machinery knows it.
func (b By) inner() job.By { return job.By(b) }

// Pause stops all claiming from the queue: no claim is applied behind it, by any
// process. Jobs that run go on. Pausing a paused queue only changes who and why.
func (q *Queue) Pause(ctx context.Context, by By) error { return q.setPaused(ctx, true, by) }

// Resume lets the queue be claimed from again.
func (q *Queue) Resume(ctx context.Context, by By) error { return q.setPaused(ctx, false, by) }

func (q *Queue) setPaused(ctx context.Context, paused bool, by By) error {
	what := "pause queue " + q.core.Name()
	if !paused {
		what = "resume queue " + q.core.Name()
	}
	return q.core.Change(ctx, what, by.inner(), func(c *job.QueueConfig) error {
		if c.At.IsZero() || c.Paused != paused { // else it has been so since then
			c.At = job.Stamp(time.Now())
		}
		c.Paused, c.Actor, c.Reason = paused, by.Actor, by.Reason
		return nil
	})
}

// The ways to share a queue's jobs among its workers: see [Queue.SetMode].
const (
	// ModeClaim has each worker claim for itself. It is the default.
	ModeClaim = job.ModeClaim
	// ModeDispatch has a [Dispatcher] hand jobs out; workers watch only their inbox.
	ModeDispatch = job.ModeDispatch
)

// SetMode says how the queue's jobs are shared among its workers: [ModeClaim] or
// [ModeDispatch]. Workers follow by watch; what they run
// goes on. The mode is a hint: results carry tokens in both, so switching while
// everything runs is safe.
func (q *Queue) SetMode(ctx context.Context, mode string, by By) error {
	if mode != ModeClaim && mode != ModeDispatch {
		return fmt.Errorf("set mode of queue %s: %w", q.core.Name(), &coord.InputError{Field: "mode", Value: mode, Reason: "it is claim or dispatch"})
	}
	return q.core.Change(ctx, "set mode of queue "+q.core.Name(), by.inner(), func(c *job.QueueConfig) error {
		c.Mode = mode
		if mode == ModeClaim {
			c.Mode = ""
		}
		c.SetBy, c.SetReason, c.SetAt = by.Actor, by.Reason, job.Stamp(time.Now())
		return nil
	})
}
