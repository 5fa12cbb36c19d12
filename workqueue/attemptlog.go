package workqueue

import (
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/leasekit/leasekit/internal/usercode"
)

// logEnd logs an attempt that did not end well, once the outcome of its closing write is
// known. A good end, and one that counts as nothing, is no line.
func (c *Claim) logEnd(e event, n next, err error) {
	switch {
	case err == nil && n.where == inDead:
		c.logger().Error("attempt was the last: the job is dead", zap.Int("failures", n.record.Failures), zap.String("error", n.record.Error))
	case err == nil && e.verb == verbFail:
		c.logger().Warn("attempt failed", zap.Int("failures", n.record.Failures), zap.Duration("retry_in", n.record.RunAt.Sub(e.now).Round(time.Millisecond)),
			zap.String("error", shorten(e.err, maxError)))
	case err == nil && e.verb == verbSnooze && e.unbegun:
		c.logger().Warn("attempt put off", zap.String("kind", c.job.Kind), zap.String("error", shorten(e.err, maxError)))
	case isLate(err):
		c.logger().Warn("attempt refused: the claim is not current any more", zap.String("wanted", e.outcome()), zap.Error(err))
	}
}

// logTaken logs an attempt whose claim was taken away while its handler ran, which
// returned answer then: nothing of it is handed in.
func (c *Claim) logTaken(cause, answer error) {
	if errors.Is(cause, ErrCancelled) {
		c.logger().Info("attempt stopped: the job was cancelled")
		return
	}
	c.logger().Warn("attempt refused: the claim is not current any more", zap.NamedError("cause", cause), zap.String("error", shorten(usercode.TextOf(answer), maxError)))
}

// logger names the attempt.
func (c *Claim) logger() *zap.Logger {
	return c.q.log.With(zap.String("job", c.job.ID), zap.Int("attempt", c.job.Attempt), zap.Stringer("token", c.fence.Token))
}
