package lane

import (
	"context"
	"fmt"

	"github.com/leasekit/leasekit/internal/fault"
)

// Pending is a Txn on its way. Safe for concurrent use.
type Pending unit

// Done is closed when the outcome is known.
func (p *Pending) Done() <-chan struct{} { return p.settled }

// Result returns the outcome; valid once Done is closed. The error is nil when
// the Txn was answered, whether If held or not; it wraps [fault.ErrUnknown] when it may
// or may not have been applied; any other error means that nothing was applied.
func (p *Pending) Result() (Result, error) { return p.result, p.err }

// Wait blocks until the outcome is known or ctx ends. When ctx ends first, a
// Txn that was not sent yet is withdrawn and the error is ctx's cause; of one
// that was sent the outcome is [fault.ErrUnknown] for now, and the committer goes on
// finding it out: see Done. One that turns out not to have been applied is not sent
// again then.
func (p *Pending) Wait(ctx context.Context) (Result, error) {
	u := (*unit)(p)
	if u.isSettled() {
		return p.Result()
	}
	select {
	case <-p.settled:
		return p.Result()
	case <-ctx.Done():
	}
	cause := fault.CauseOf(ctx)
	if trouble := u.trouble.Load(); trouble != nil {
		cause = fmt.Errorf("%w (last answer: %w)", cause, *trouble)
	}
	if u.withdraw() {
		u.settle(Result{}, fmt.Errorf("%w: %w", fault.ErrNotSent, cause))
		u.owner.forgetWithdrawn()
		return p.Result()
	}
	if u.isSettled() {
		return p.Result()
	}
	u.left.Store(true)
	u.owner.callerLeft()
	return Result{}, fault.Unknown(cause)
}

// Fixed is closed once what etcd holds can not be changed by the Txn any more. It is
// valid once Done is closed, and closed then unless the outcome is [fault.ErrUnknown]: a late
// original may be applied until its lane has ended, and one that was sent without a lane
// for as long as what it compares is there. A committer that is closed and could not end
// the lane closes it too, since nothing else will.
func (p *Pending) Fixed() <-chan struct{} {
	if p.fixed != nil {
		return p.fixed
	}
	return p.settled
}

// isLate tells that a late original may be applied yet, although waiting is no use.
func (p *Pending) isLate() bool {
	return p.fixed == neverFixed || p.late != nil && p.late.Load()
}
