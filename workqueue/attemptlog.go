package workqueue

import (
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/usercode"
)

// logEnd logs an attempt that did not end well, once the outcome of its closing write is
// known. A good end, and one that counts as nothing, is no line.
func (c *Claim) logEnd(e job.Event, n job.Next, err error) {
	switch {
	case err == nil && n.Where == job.InDead:
		c.logger().Error("attempt was the last: the job is dead", zap.Int("failures", n.Record.Failures), zap.String("error", n.Record.Error))
	case err == nil && e.Verb == job.VerbFail:
		c.logger().Warn("attempt failed", zap.Int("failures", n.Record.Failures), zap.Duration("retry_in", n.Record.RunAt.Sub(e.Now).Round(time.Millisecond)),
			zap.String("error", job.Shorten(e.Err, job.MaxError)))
	case err == nil && e.Verb == job.VerbSnooze && e.Unbegun:
		c.logger().Warn("attempt put off", zap.String("kind", c.job.Kind), zap.String("error", job.Shorten(e.Err, job.MaxError)))
	case isLate(err):
		c.logger().Warn("attempt refused: the claim is not current any more", zap.String("wanted", e.Outcome()), zap.Error(err))
	}
}

// logTaken logs an attempt whose claim was taken away while its handler ran, which
// returned answer then: nothing of it is handed in.
func (c *Claim) logTaken(cause, answer error) {
	if errors.Is(cause, ErrCancelled) {
		c.logger().Info("attempt stopped: the job was cancelled")
		return
	}
	c.logger().Warn("attempt refused: the claim is not current any more", zap.NamedError("cause", cause), zap.String("error", job.Shorten(usercode.TextOf(answer), job.MaxError)))
}

// logger names the attempt.
func (c *Claim) logger() *zap.Logger {
	return c.q.core.Log.With(zap.String("job", c.job.ID), zap.Int("attempt", c.job.Attempt), zap.Stringer("token", c.fence.Token))
}
