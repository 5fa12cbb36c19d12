package workqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
)

// Complete ends the job with a result, under the claim's fence. It blocks until
// the outcome is known or ctx ends:
//
//   - nil: accepted, exactly once, however often an answer was lost;
//   - [*coord.FencedError], which matches [coord.ErrFenced]: refused, somebody else
//     owns the job now, or it is over;
//   - [ErrSettled]: the claim was closed before;
//   - [coord.ErrUnknown]: ctx ended first; the write goes on behind.
//
// A result larger than [MaxResult] is refused with a [coord.InputError] and leaves
// the claim open.
func (c *Claim) Complete(ctx context.Context, result []byte) error {
	return c.CompleteWith(ctx, result)
}

// CompleteWith is Complete, with the caller's own writes in the same Txn: they
// land together with the result, or not at all. At most 60 ops; under
// Leasekit's own root only those from [Queue.EnqueueOps] are accepted, and when the
// job that they create exists already the error is an [*ExistsError], and the claim stays
// open.
func (c *Claim) CompleteWith(ctx context.Context, result []byte, ops ...clientv3.Op) error {
	if err := checkSize("result", len(result), MaxResult); err != nil {
		return fmt.Errorf("complete job %s: %w", c.job.ID, err)
	}
	joined, err := joinable(c.q.store.Keys(), ops)
	if err != nil {
		return fmt.Errorf("complete job %s: %w", c.job.ID, err)
	}
	e := c.event(verbComplete)
	e.result = result
	return c.close(ctx, e, joined)
}

// Fail ends the attempt with an error, under the claim's fence: the job is tried
// again after the backoff, or buried when its attempts are used up. An error made
// by [Permanent], [RetryAfter], [Snooze] or [Cancel] says otherwise. It returns as
// Complete does.
func (c *Claim) Fail(ctx context.Context, cause error) error {
	if cause == nil {
		cause = errors.New("failed without an error")
	}
	return c.close(ctx, c.failure(cause), joint{})
}

// failure turns a handler's error into the event that it asks for.
func (c *Claim) failure(cause error) event {
	var o *outcomeError
	if !errors.As(cause, &o) {
		e := c.event(verbFail)
		e.err = cause.Error()
		return e
	}
	e := c.event(o.outcome)
	switch {
	case o.outcome == verbSnooze:
		e.at = e.now.Add(o.delay)
	case o.outcome == verbCancel, o.err != nil:
		e.err = cause.Error()
	}
	e.permanent = o.final
	if o.outcome == verbFail && o.delay > 0 {
		e.delay = func(int) time.Duration { return o.delay }
	}
	return e
}

// Release gives the job back at once, counted as nothing. It returns as Complete
// does.
func (c *Claim) Release(ctx context.Context) error {
	return c.close(ctx, c.event(verbRelease), joint{})
}

// giveBack is what the session's Close does with a claim that is still held.
func (c *Claim) giveBack(ctx context.Context) error {
	c.setGiven(true)
	err := c.Release(ctx)
	if errors.Is(err, ErrSettled) {
		c.setGiven(false)
		return nil
	}
	return err
}

func (c *Claim) setGiven(given bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.given = given
}

func (c *Claim) wasGivenBack() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.given
}

func (c *Claim) event(v verb) event {
	return event{verb: v, now: time.Now(), nonce: coord.NewNonce(), token: c.fence.Token, delay: c.q.delay()}
}

// close makes the closing transition, once.
func (c *Claim) close(ctx context.Context, e event, joined joint) error {
	c.mu.Lock()
	if c.settled {
		c.mu.Unlock()
		return fmt.Errorf("%s job %s: %w", e.verb, c.job.ID, ErrSettled)
	}
	c.settled = true
	c.mu.Unlock()
	pending, err := c.startClose(e, joined)
	if err == nil {
		err = pending.wait(ctx)
	}
	if !isOver(err) {
		c.mu.Lock()
		c.settled = false
		c.mu.Unlock()
	}
	if err != nil {
		return fmt.Errorf("%s job %s: %w", e.verb, c.job.ID, err)
	}
	return nil
}

// isOver tells whether the outcome of a closing write leaves nothing to try: it is
// known, or can never be.
func isOver(err error) bool {
	return err == nil || errors.Is(err, coord.ErrFenced) || errors.Is(err, coord.ErrUnknown)
}

// over takes the claim out of the books.
func (c *Claim) over(err error) {
	c.unfollow()
	if err == nil {
		err = ErrSettled
	}
	c.end(err)
	if c.session != nil {
		c.session.Forget(c.fence.Nonce)
	}
}

// isSettled tells whether the claim was closed, or is being closed.
func (c *Claim) isSettled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.settled
}

// closing is a closing transition under way. It goes on behind its caller.
type closing struct {
	done chan struct{}
	err  error
}

func (p *closing) wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", coord.ErrUnknown, context.Cause(ctx))
	}
}

// startClose begins a closing transition that is carried to its end whatever
// becomes of the caller.
func (c *Claim) startClose(e event, joined joint) (*closing, error) {
	at := c.at
	at.noted = c.notes.any()
	n, err := transition(at.record, at.where, e)
	if err != nil {
		return nil, err
	}
	p := &closing{done: make(chan struct{})}
	started := c.q.behind(func(life context.Context) {
		p.err = c.carry(life, at, n, joined)
		if isOver(p.err) {
			c.over(p.err)
		}
		close(p.done)
		if errors.Is(p.err, coord.ErrFenced) {
			c.q.keepRefusal(life, c, e)
		}
	})
	if !started {
		return nil, coord.ErrClosed
	}
	return p, nil
}

// carry sends the closing Txn until its outcome is known. Repeating it is safe:
// its own success takes the fence away for ever. So a refusal after an unknown
// outcome may be our own success, and the head nonce of the record tells.
func (c *Claim) carry(ctx context.Context, at located, n next, joined joint) error {
	committer := c.committer()
	unsure, renewed := false, false
	for {
		txn, lease, err := c.closeTxn(ctx, at, n, joined)
		if err != nil {
			return err
		}
		r, err := committer.Do(ctx, txn)
		switch {
		case err == nil && r.Succeeded:
			return nil
		case err == nil:
			return c.judgeRefusal(ctx, r, n, unsure, joined)
		case ctx.Err() != nil:
			return err
		case errors.Is(err, coord.ErrClosed) && committer != c.q.committer:
			// The session is closed already, but its claim may still be current.
			committer = c.q.committer
		case errors.Is(err, coord.ErrUnknown):
			unsure = true
		case lease != clientv3.NoLease && errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound) && !(renewed && joined.ops != nil):
			// Under a fresh lease of ours a second refusal is about one of the caller's.
			c.q.retention.lost(lease)
			renewed = true
		default:
			return stillUnknown(err, unsure)
		}
	}
}

// stillUnknown is err, unless it is a refusal of a repeat of which nobody could read
// what was in its way: that may have been its own success.
func stillUnknown(err error, unsure bool) error {
	if unsure && errors.Is(err, coord.ErrRefused) {
		return fmt.Errorf("%w: %w", coord.ErrUnknown, err)
	}
	return err
}

// closeTxn builds the Txn, anew for each try, because a retention lease may be
// gone by the next.
func (c *Claim) closeTxn(ctx context.Context, at located, n next, joined joint) (coord.Txn, clientv3.LeaseID, error) {
	var lease clientv3.LeaseID
	if n.where == inDone {
		var err error
		if lease, err = c.q.retention.lease(ctx, n.record.size()); err != nil {
			return coord.Txn{}, 0, err
		}
	}
	txn, err := c.q.txns.close(c.fence, at, n, lease)
	if err != nil {
		return coord.Txn{}, 0, err
	}
	joined.join(&txn, c.q.store.Keys())
	return txn, lease, nil
}

// judgeRefusal tells whose doing a refusal is.
func (c *Claim) judgeRefusal(ctx context.Context, r coord.Result, n next, unsure bool, joined joint) error {
	err := r.Refusal(c.fence)
	if !errors.Is(err, coord.ErrFenced) {
		return cmp.Or(joined.inTheWay(ctx, c.q, r), err)
	}
	if !unsure {
		return err
	}
	l, _, lerr := c.q.locate(ctx, n.record.ID)
	if lerr != nil {
		return fmt.Errorf("%w: %w", coord.ErrUnknown, lerr)
	}
	switch applied, known := endedAs(l.record, n.record); {
	case !known:
		return fmt.Errorf("%w: the job has moved on since: %w", coord.ErrUnknown, err)
	case applied:
		return nil
	}
	return err
}

// endedAs tells whether the claim that mine closes was closed by it, as the trail
// of the job's current record shows: every way out of a claim leaves its token
// there. It is not known when the trail does not reach back so far.
func endedAs(now, mine *record) (applied, known bool) {
	if now == nil || now.Born != mine.Born {
		return false, false
	}
	if now.Nonce == mine.Nonce {
		return true, true
	}
	my := mine.Attempts[len(mine.Attempts)-1]
	for _, a := range now.Attempts {
		if a.Token == my.Token {
			return a.Outcome == my.Outcome && a.EndedAt.Equal(my.EndedAt), true
		}
	}
	return false, false
}

// size is about what the record takes in etcd.
func (r *record) size() int {
	n := 512 + len(r.payload()) + len(r.result())
	for _, a := range r.Attempts {
		n += 200 + len(a.Error) + len(a.Reason)
	}
	for k, v := range r.Labels {
		n += len(k) + len(v)
	}
	return n
}
