package lane

import (
	"context"
	"errors"
	"fmt"

	"github.com/leasekit/leasekit/internal/claims"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
)

// Attempt sends one closing Txn and judges the answer, for the packages of Leasekit. The caller judges a refusal by its
// Result: until then it is Again, as when a compare did not hold that is no fence.
func (c *Committer) Attempt(ctx context.Context, t etcdkv.Txn) (Result, claims.Outcome) {
	if ctx.Err() != nil {
		return Result{}, claims.Outcome{Verdict: claims.Again, Err: fmt.Errorf("%w: %w", fault.ErrNotSent, fault.CauseOf(ctx))}
	}
	p := c.Go(t)
	r, err := p.Wait(ctx)
	switch {
	case err == nil && r.Succeeded:
		return r, claims.Outcome{Verdict: claims.Applied}
	case err == nil:
		return r, claims.Outcome{Verdict: claims.Again}
	case errors.Is(err, fault.ErrUnknown):
		o := claims.Outcome{Verdict: claims.Unsure, Err: err}
		select {
		case <-p.Done():
			o.Loose = p.isLate
			if o.Fixed = p.Fixed(); o.Fixed == neverFixed {
				o.Fixed = nil
			}
		default: // ctx ended, and with it the closing
		}
		return r, o
	}
	return r, claims.Outcome{Verdict: claims.Refused, Err: err}
}
