package workqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/claims"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/inside"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/lane"
	"github.com/leasekit/leasekit/internal/usercode"
)

// Complete ends the job with a result, under the claim's fence. It blocks until
// the outcome is known or ctx ends:
//
//   - nil: accepted, exactly once, however often an answer was lost;
//   - [*coord.FencedError], which matches [coord.ErrFenced]: refused, somebody else
//     owns the job now, or it is over;
//   - [ErrSettled]: another call has closed the claim;
//   - [coord.ErrUnknown]: ctx ended first, and the write goes on behind, unless another
//     call's was under way; or the outcome cannot be found out;
//   - any other error: nothing was written, and the claim is open as before. Such is a
//     result larger than [MaxResult], a [coord.InputError].
//
// A call that finds another under way waits for it, and has its turn when that one was
// not applied.
func (c *Claim) Complete(ctx context.Context, result []byte) error {
	return c.CompleteWith(ctx, result)
}

// CompleteWith is Complete, with the caller's own writes in the same Txn: they
// land together with the result, or not at all. At most 60 ops; under
// Leasekit's own root only those from [Queue.EnqueueOps] are accepted, and when the
// job that they create exists already the error is an [*ExistsError], and the claim stays
// open.
func (c *Claim) CompleteWith(ctx context.Context, result []byte, ops ...clientv3.Op) error {
	return c.CompleteJoined(ctx, result, nil, ops...)
}

// CompleteJoined is CompleteWith for a job that is done only while other claims are
// current too, such as a lock's: all fences hold in the same Txn, or nothing is written.
// At most 16. When a fence is the one that is not current, the [*coord.FencedError] names
// its key, and the claim of the job stays open.
func (c *Claim) CompleteJoined(ctx context.Context, result []byte, fences []coord.Fence, ops ...clientv3.Op) error {
	if err := job.CheckSize("result", len(result), MaxResult); err != nil { //mutant:result-size
		return fmt.Errorf("complete job %s: %w", c.job.ID, err)
	}
	joined, err := job.Joinable(c.q.core.Store.Keys(), fencesOf(fences), ops)
	if err != nil {
		return fmt.Errorf("complete job %s: %w", c.job.ID, err)
	}
	e := c.event(job.VerbComplete)
	e.Result = result
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
	return c.close(ctx, c.failure(cause), job.JoinedOps{})
}

// failure turns a handler's error into the event that it asks for.
func (c *Claim) failure(cause error) job.Event {
	o := outcomeOf(cause)
	if o == nil {
		e := c.event(job.VerbFail)
		e.Err = usercode.TextOf(cause)
		return e
	}
	e := c.event(o.outcome)
	if o.outcome == job.VerbSnooze {
		e.At = e.Now.Add(o.delay)
	}
	if o.outcome == job.VerbCancel || o.err != nil {
		e.Err = usercode.TextOf(cause)
	}
	e.Permanent, e.Unbegun = o.final, o.unbegun
	if o.outcome == job.VerbFail && o.delay > 0 {
		e.Delay = func(int) time.Duration { return o.delay }
	}
	return e
}

// Release gives the job back at once, counted as nothing. It returns as Complete
// does.
func (c *Claim) Release(ctx context.Context) error {
	return c.close(ctx, c.event(job.VerbRelease), job.JoinedOps{})
}

// giveBack is what the session's Close does with a claim that is still held.
func (c *Claim) giveBack(ctx context.Context) error {
	c.given.Store(true)
	err := c.Release(ctx)
	if errors.Is(err, ErrSettled) {
		c.given.Store(false)
	}
	if isClosed(err) {
		return nil
	}
	return err
}

func (c *Claim) event(v job.Verb) job.Event {
	return job.Event{Verb: v, Now: time.Now(), Nonce: keyspace.NewNonce(), Token: job.Token(c.fence.Token), Delay: c.q.core.Delay()}
}

// close takes one way out of the claim: see [claims.Closer].
func (c *Claim) close(ctx context.Context, e job.Event, joined job.JoinedOps) error {
	way, err := c.way(e, joined)
	if err == nil {
		err = c.closer.Close(ctx, way)
	}
	if errors.Is(err, claims.ErrSettled) {
		err = ErrSettled
	}
	if err != nil {
		return fmt.Errorf("%s job %s: %w", e.Verb, c.job.ID, err)
	}
	return nil
}

// isClosed tells that after a closing call nothing is left to close.
func isClosed(err error) bool {
	return err == nil || isLate(err) || errors.Is(err, ErrSettled)
}

// leaveTo leaves the claim to its session's book, since its handler has returned: the
// event is handed in for as long as the session lives. It is false when it does not.
func (c *Claim) leaveTo(e job.Event) bool {
	return c.endBy(e) && inside.Of(c.session).Book().Settle(c.fence.Nonce)
}

// endBy has the session's book end the claim by an event, should it be left to it. It is
// false when the claim is out of the book.
func (c *Claim) endBy(e job.Event) bool {
	return c.session != nil &&
		inside.Of(c.session).Book().Replace(c.fence.Nonce, func(ctx context.Context) error { return c.handIn(ctx, e) })
}

// handIn closes the claim by an event. A refusal that would come again counts as a
// failure of the attempt; what etcd has no room or no right for is tried again later.
func (c *Claim) handIn(ctx context.Context, e job.Event) error {
	err := c.close(ctx, e, job.JoinedOps{})
	if refusedForGood(err) && e.Verb == job.VerbComplete {
		e = c.failure(err)
		err = c.close(ctx, e, job.JoinedOps{})
	}
	if errors.Is(err, coord.ErrClosed) { // the queue is: what goes to done/ needs it
		err = c.close(ctx, c.event(job.VerbRelease), job.JoinedOps{})
	}
	if isClosed(err) {
		return nil
	}
	return err
}

// refusedForGood tells that a closing write was refused for what it is, and would be
// again: not for want of an answer, of a right or of room, and not since the claim is
// over.
func refusedForGood(err error) bool {
	if err == nil || isClosed(err) || errors.Is(err, coord.ErrUnknown) || errors.Is(err, coord.ErrClosed) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, rpctypes.ErrNoSpace) {
		return false
	}
	switch codeOf(err) {
	case codes.PermissionDenied, codes.Unauthenticated, codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return false
	}
	return true
}

// isLate tells that a closing write was refused because the claim is not current.
func isLate(err error) bool { return errors.Is(err, coord.ErrFenced) && !errors.Is(err, errJoined) }

// over takes the claim out of the books.
func (c *Claim) over(err error) {
	c.unfollow()
	if err == nil {
		err = ErrSettled
	}
	c.end(err)
	if c.session != nil {
		inside.Of(c.session).Book().Untrack(c.fence.Nonce)
	}
}

// isClosing tells whether the claim was closed, or is being closed.
func (c *Claim) isClosing() bool { return c.closer.Busy() || c.closer.Over() }

// way is the closing transition of an event. It is carried to its end whatever becomes
// of the caller: its own success takes the fence away for ever, so it may be repeated.
func (c *Claim) way(e job.Event, joined job.JoinedOps) (claims.Way, error) {
	at := c.at
	at.HasProgress = c.notes.any()
	n, err := job.Transition(at.Record, at.Where, e)
	if err != nil {
		return claims.Way{}, err
	}
	w := &wayOut{c: c, at: at, n: n, joined: joined, committer: c.committer()}
	return claims.Way{
		Try: w.try, Followed: w.followed, GivesUp: e.Verb == job.VerbRelease,
		Unknown: func(causes ...error) error {
			return fmt.Errorf("%w: %w", coord.ErrUnknown, errors.Join(causes...))
		},
		Over: func(err error) {
			c.logEnd(e, n, err)
			c.over(err)
			if isLate(err) {
				c.q.core.Behind(func(ctx context.Context) { c.q.keepRefusal(ctx, c, e) })
			}
		},
	}, nil
}

// wayOut is one closing transition on its way.
type wayOut struct {
	c         *Claim
	at        job.Snapshot
	n         job.Next
	joined    job.JoinedOps
	committer *lane.Committer
	renewed   bool // a retention lease was gone
}

func (w *wayOut) try(ctx context.Context) claims.Outcome {
	txn, lease, err := w.c.closeTxn(ctx, w.at, w.n, w.joined)
	if err != nil {
		return claims.Outcome{Verdict: claims.Refused, Err: err}
	}
	r, o := w.committer.Attempt(ctx, txn)
	switch {
	case o.Verdict == claims.Again && o.Err == nil: // a compare did not hold
		return w.refused(ctx, r)
	case o.Verdict != claims.Refused:
	case errors.Is(o.Err, coord.ErrClosed) && w.committer != w.c.q.core.Committer:
		// The session is closed already, but its claim may still be current.
		w.committer = w.c.q.core.Committer
		o = claims.Outcome{Verdict: claims.Again}
	case lease != clientv3.NoLease && errors.Is(rpctypes.Error(o.Err), rpctypes.ErrLeaseNotFound) && !(w.renewed && w.joined.Ops != nil):
		// Under a fresh lease of ours a second refusal is about one of the caller's.
		w.c.q.core.Retention.Lost(lease) //mutant:retention-lease-dead
		w.renewed = true                 //mutant:caller-lease-dead
		o = claims.Outcome{Verdict: claims.Again}
	}
	return o
}

// refused tells whose doing it is that a compare did not hold.
func (w *wayOut) refused(ctx context.Context, r lane.Result) claims.Outcome {
	err := r.Refusal(fenceOf(w.c.fence))
	if errors.Is(err, coord.ErrFenced) {
		return claims.Outcome{Verdict: claims.Fenced, Err: err}
	}
	return claims.Outcome{Verdict: claims.Refused, Err: cmp.Or(inTheWay(ctx, w.c.q, w.joined, fenceOf(w.c.fence), r), err)}
}

// followed finds out what followed the claim: the trail of the job says it, which goes
// with it wherever it is now.
func (w *wayOut) followed(ctx context.Context) (claims.Verdict, error) {
	l, _, err := w.c.q.core.Locate(ctx, w.n.Record.ID)
	if err != nil {
		return claims.Unsure, err
	}
	if l.ProvenBy(int64(w.c.fence.Token), w.c.fence.Nonce) {
		return claims.Refused, nil
	}
	switch applied, known := endedAs(l.Record, w.n.Record); {
	case !known:
		return claims.Unsure, errors.New("the job has moved on since")
	case applied:
		return claims.Applied, nil
	}
	return claims.Fenced, &coord.FencedError{Key: w.c.fence.Key, Wanted: w.c.fence.Token, Current: coord.Token(l.TokenOf(job.InJobs))}
}

// closeTxn builds the Txn, anew for each try, because a retention lease may be
// gone by the next.
func (c *Claim) closeTxn(ctx context.Context, at job.Snapshot, n job.Next, joined job.JoinedOps) (etcdkv.Txn, clientv3.LeaseID, error) {
	var lease clientv3.LeaseID
	if n.Where == job.InDone {
		var err error
		if lease, err = c.q.core.Retention.Lease(ctx, n.Record.Size()); err != nil {
			return etcdkv.Txn{}, 0, err
		}
	}
	txn, err := c.q.core.Txns.Close(fenceOf(c.fence), at, n, lease)
	if err != nil {
		return etcdkv.Txn{}, 0, err
	}
	joined.Join(&txn, c.q.core.Store.Keys())
	return txn, lease, nil
}

// endedAs tells whether the claim that mine closes was closed by it, as the trail
// of the job's current record shows: every way out of a claim leaves its token
// there. It is not known when the trail does not reach back so far.
func endedAs(now, mine *job.Record) (applied, known bool) {
	if now == nil || /*mutant:settle-later-job*/ now.Born != mine.Born {
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
