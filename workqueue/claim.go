package workqueue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/claims"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/inside"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/lane"
	"github.com/leasekit/leasekit/internal/queue"
	"github.com/leasekit/leasekit/internal/ready"
)

// Claim is one attempt at one job, owned by a session. It closes once: by
// Complete, CompleteWith, Fail or Release; a second closing call returns
// [ErrSettled]. Safe for concurrent use.
type Claim struct {
	q       *Queue
	session *coord.Session // nil for a claim that was taken up
	at      job.Snapshot   // the claimed record: its rev is the token
	fence   coord.Fence
	job     *Job
	notes   notes

	life     context.Context // ends when the claim is over, with why as its cause
	end      context.CancelCauseFunc
	unfollow func() // the index stops telling of the job
	closer   *claims.Closer

	payloadLost bool        // it lay beside the record and is gone: no handler can work this
	given       atomic.Bool // back by the session's Close, under a handler that still runs
}

// Claim claims one job for the session, without a Worker: the first in the
// queue's order, approximately. It does not wait for one: [ErrEmpty] means that
// nothing is claimable now. The first call starts the queue's mirror and waits for
// it. When ctx ends while the request is under way the error is
// [coord.ErrUnknown], and a claim that was made all the same is released behind.
func (q *Queue) Claim(ctx context.Context, s *coord.Session) (*Claim, error) {
	if err := q.core.Mirrors.Sync(ctx); err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	ask := ready.Claimant{SID: s.ID(), TTL: s.TTL()}
	// After each lost race the choice spreads over twice as many jobs, so that
	// claimers who met at the head part.
	for spread := 1; ; spread = min(2*spread, ready.HeadWindow) {
		c, ok := q.core.Index.First(rand.IntN(spread), ask)
		if !ok {
			return nil, fmt.Errorf("claim from %s: %w", q.core.Name(), ErrEmpty)
		}
		claim, err := q.take(ctx, s, c)
		if claim != nil && claim.payloadLost {
			e := claim.failure(errPayloadLost)
			if err := claim.close(ctx, e, job.JoinedOps{}); !isClosed(err) {
				claim.leaveTo(e) // the caller never has it
				return nil, fmt.Errorf("claim from %s: %w", q.core.Name(), err)
			}
			continue
		}
		if claim != nil || err != nil && !errors.Is(err, queue.ErrMissed) {
			return claim, err
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("claim from %s: %w", q.core.Name(), context.Cause(ctx))
		}
	}
}

// errPayloadLost buries a job whose payload somebody deleted.
var errPayloadLost = Permanent(errors.New("its payload is gone: somebody deleted the key beside the record"))

// take claims one candidate.
func (q *Queue) take(ctx context.Context, s *coord.Session, c ready.Candidate) (*Claim, error) {
	e := job.Event{
		Verb: job.VerbClaim, Now: c.Seen, Nonce: keyspace.NewNonce(),
		Owner: s.ID(), OwnerRev: inside.Of(s).CreateRevision(), Delay: q.core.Delay(),
	}
	var progress int64
	if c.Orphan {
		var err error
		if progress, err = q.judgeLoss(ctx, c, &e); err != nil {
			q.core.Index.Settle(c, false)
			return nil, err
		}
	}
	n, err := job.Transition(c.Record, c.Where, e)
	if err != nil {
		q.core.Index.Settle(c, false)
		return nil, fmt.Errorf("%w: %w", queue.ErrMissed, err)
	}
	txn, err := q.claimTxn(c, n, job.Owner{ID: e.Owner, Rev: e.OwnerRev}, progress)
	try := &claimTry{q: q, s: s, c: c, nonce: e.Nonce}
	if err == nil {
		err = inside.Of(s).Track(e.Nonce, try.end)
	}
	if err != nil {
		q.core.Index.Settle(c, false)
		return nil, fmt.Errorf("claim job %s: %w", c.Record.ID, err)
	}
	began := time.Now()
	try.pending = inside.Of(s).Committer().Go(txn)
	r, err := try.pending.Wait(ctx)
	switch {
	case err == nil:
		q.core.Index.ClaimTook(time.Since(began))
		return q.claimed(try, n, r)
	case errors.Is(err, coord.ErrUnknown):
		try.leave() //mutant:claim-in-doubt
	default:
		inside.Of(s).Book().Untrack(e.Nonce)
		q.core.Index.Settle(c, false)
	}
	return nil, fmt.Errorf("claim job %s: %w", c.Record.ID, err)
}

func (q *Queue) claimTxn(c ready.Candidate, n job.Next, me job.Owner, progress int64) (etcdkv.Txn, error) {
	if c.Orphan {
		return q.core.Txns.Reclaim(c.Snapshot, n, me, c.Config, progress)
	}
	return q.core.Txns.Claim(c.Snapshot, n, me, c.Config)
}

// judgeLoss decides whether an orphan's loss counts: not when its attempt had made
// progress, nor when sessions ended in numbers. The progress revision that it
// returns joins the Txn's compares.
func (q *Queue) judgeLoss(ctx context.Context, c ready.Candidate, e *job.Event) (progress int64, err error) {
	resp, err := q.core.Store.Get(ctx, q.core.Keys().Progress(c.Record.ID))
	if err != nil {
		return 0, fmt.Errorf("read progress of job %s: %w", c.Record.ID, err)
	}
	if len(resp.Kvs) == 1 {
		progress = resp.Kvs[0].ModRevision
	}
	e.Verb, e.Token = job.VerbReclaim, job.Token(c.Rev)
	e.Counted = /*mutant:loss-after-progress*/ progress <= c.Rev && /*mutant:loss-in-a-cut*/ !c.InMassLoss
	return progress, nil
}

// claimTry is one Txn that claims, as it stands in the session's book.
type claimTry struct {
	q       *Queue
	s       *coord.Session
	c       ready.Candidate
	nonce   string
	pending *lane.Pending // set before anything is left to the book
}

// leave gives the claim up that the try made, or may have made, behind the caller.
func (t *claimTry) leave() {
	if inside.Of(t.s).Book().Settle(t.nonce) {
		return
	}
	// The session can write no more, and its lease ends the claim: given back in time,
	// it counts as no loss.
	if !t.q.core.Behind(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
		defer cancel()
		_ = t.end(ctx)
	}) {
		t.q.core.Index.Settle(t.c, false)
	}
}

// end finds out what became of the try, once that can change no more, and gives back
// what it claimed.
func (t *claimTry) end(ctx context.Context) error {
	for _, sent := range []func() <-chan struct{}{t.pending.Done, t.pending.Fixed} {
		select {
		case <-sent():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	err := t.q.giveBack(ctx, t.s, t.c.Record.ID, t.nonce, unbegun("the caller had gone, or never had the answer"))
	if err == nil {
		t.q.core.Index.Settle(t.c, false)
	}
	return err
}

// claimed judges the answer to a claim.
func (q *Queue) claimed(try *claimTry, n job.Next, r lane.Result) (*Claim, error) {
	s, c := try.s, try.c
	if !r.Succeeded {
		inside.Of(s).Book().Untrack(try.nonce)
		moved := q.core.Index.Refused(c, r.Get(0))
		if moved && c.Orphan {
			q.core.Log.Debug("lost the race for an orphan", zap.String("job", c.Record.ID))
		}
		if !moved && s.Err() != nil {
			return nil, s.Err()
		}
		return nil, queue.ErrMissed
	}
	if !n.Claims() {
		inside.Of(s).Book().Untrack(try.nonce)
		q.core.Log.Warn("orphan was not claimed again", zap.String("job", c.Record.ID), zap.Int("losses", n.Record.Losses), zap.Bool("dead", n.Where == job.InDead))
		return nil, queue.ErrMissed
	}
	claim := q.newClaim(s, job.Snapshot{Record: n.Record, Where: job.InJobs, Rev: r.Revision})
	i := 1
	if c.Record.Beside > 0 {
		if kv := r.Get(i); kv != nil {
			claim.job.Payload = kv.Value
		} else {
			claim.payloadLost = true
		}
		i++
	}
	if c.Record.Attempt > 0 {
		claim.notes.load(r.Get(i), claim.job)
	}
	claim.unfollow = q.core.Index.Follow(n.Record.ID, r.Revision, claim.moved)
	if err := inside.Of(s).Keep(try.nonce, claim.giveBack); err != nil {
		// The session ended between the Txn and here: no work may start.
		claim.unfollow()
		try.leave()
		return nil, err
	}
	return claim, nil
}

// newClaim makes a claim of a record that is claimed for the session.
func (q *Queue) newClaim(s *coord.Session, at job.Snapshot) *Claim {
	c := &Claim{
		q: q, session: s, at: at,
		fence:    coord.Fence{Key: q.core.Keys().Job(at.Record.ID), Token: coord.Token(at.Rev), Nonce: at.Record.Nonce},
		job:      view(at.Record, q.core.Name(), job.InJobs, at.Rev, time.Now(), func(string, int64) bool { return true }),
		unfollow: func() {},
	}
	c.life, c.end = context.WithCancelCause(context.Background())
	c.closer = claims.NewCloser(nil, "", q.core.Behind)
	if s != nil {
		c.closer = claims.NewCloser(inside.Of(s).Book(), at.Record.Nonce, c.behind)
	}
	return c
}

// behind runs what closes the claim for as long as the queue can write, and behind that
// for as long as the session can. What the end of either cuts short is in the session's
// book.
func (c *Claim) behind(f func(ctx context.Context)) bool {
	return c.q.core.Behind(f) || inside.Of(c.session).Behind(f)
}

// moved hears of changes of the job behind the claim. What is older, or is the claim
// itself, is none.
func (c *Claim) moved(ch ready.Change) {
	switch {
	case c.isClosing() || ch.Rev < c.at.Rev || ch.Now != nil && ch.Now.Nonce == c.fence.Nonce:
	case ch.Gone:
		c.taken(ch.Rev)
	default:
		c.end(c.endedBy(ch.Now, coord.Token(ch.Rev)))
	}
}

// Job is the job as it was claimed. Its Token is the claim's.
func (c *Claim) Job() *Job { return c.job }

// Token is the claim's fencing token.
func (c *Claim) Token() coord.Token { return c.fence.Token }

// Fence proves that the claim is current, for anybody's Txn.
func (c *Claim) Fence() coord.Fence { return c.fence }

// IdempotencyKey is the job's: the same for every attempt. Give it to systems
// outside etcd, so that an effect that happened already is not repeated; give them
// the token to keep a late owner out.
func (c *Claim) IdempotencyKey() string { return c.job.IdempotencyKey() }

// Context returns a context for work on the claim. It ends with parent, with
// cancel, with the session (cause [coord.ErrSessionLost]), or with the claim: cause
// [ErrCancelled] when the job is known to have been cancelled, [coord.ErrFenced] when
// the claim was broken or superseded, or the job moved or deleted, [ErrSettled] when it
// was closed.
func (c *Claim) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancelSession := parent, func() {}
	if c.session != nil {
		ctx, cancelSession = c.session.Context(parent)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.life, func() { cancel(context.Cause(c.life)) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
		cancelSession()
	}
}
