package workqueue

import (
	"context"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/job"
)

// takenFromInbox is taken for a claim whose inbox entry vanished, unless that is the
// doing of its own closing write.
func (c *Claim) takenFromInbox(rev int64) {
	if !c.isClosing() {
		c.taken(rev)
	}
}

// taken ends a claim whose job, or inbox entry, was gone at revision rev. etcd says why:
// a job that was moved or deleted was not cancelled.
func (c *Claim) taken(rev int64) {
	began := c.q.core.Behind(func(ctx context.Context) {
		if cause := c.whyTaken(ctx, rev); cause != nil && !c.isClosing() { // else it is for its own closing write to say
			c.end(cause)
		}
	})
	if !began {
		c.end(c.endedBy(nil, 0))
	}
}

// whyTaken finds out what ended the claim. The trail tells, as it was at revision rev:
// that is when a watch saw the end. What only a list saw gone ended before, at the first
// change behind the claim. It returns nil when the claim is current all the same.
func (c *Claim) whyTaken(ctx context.Context, rev int64) error {
	l := c.q.core.JobAt(ctx, c.job.ID, rev)
	if c.outcomeIn(l.Record) == "" {
		if first := c.q.core.FirstChange(ctx, c.fence.Key, c.at.Rev+1); first != rev {
			l = c.q.core.JobAt(ctx, c.job.ID, first)
		}
	}
	current := coord.Token(0)
	if l.Record != nil && l.Where == job.InJobs {
		current = coord.Token(l.Rev)
	}
	if current == c.fence.Token && l.Record.Nonce == c.fence.Nonce && !l.Record.Assigned {
		return nil // without its inbox entry, an assigned one would hear of nothing more
	}
	return c.endedBy(l.Record, current)
}

// endedBy is the cause of the claim's end, as the job's later record tells: cancelled
// only when it says so of this very claim.
func (c *Claim) endedBy(now *job.Record, current coord.Token) error {
	if c.outcomeIn(now) == job.OutcomeCancelled {
		return ErrCancelled
	}
	return &coord.FencedError{Key: c.fence.Key, Wanted: c.fence.Token, Current: current}
}

// outcomeIn is how the claim ended, as a later record's trail has it, or "". Every way
// out of a claim leaves its token there, and later jobs of the id take the trail up.
func (c *Claim) outcomeIn(now *job.Record) string {
	if now == nil {
		return ""
	}
	for _, a := range now.Attempts {
		if a.Token == job.Token(c.fence.Token) && a.Owner == c.at.Record.Owner {
			return a.Outcome
		}
	}
	return ""
}
