package coord

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/claims"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
	"github.com/leasekit/leasekit/internal/line"
)

// Hold is a claim that is held: a lock, a permit, or a leadership. It ends with
// Release, with its session, or when somebody else takes the claim away. Safe for
// concurrent use.
type Hold struct {
	c     *claimable
	fence Fence

	life   context.Context // ends with the hold; its cause is why
	end    context.CancelCauseFunc
	closer *claims.Closer
}

// hold makes the claim ours to use, and watches it.
func (a *acquisition) hold(key string, rev int64) (*Hold, error) {
	a.left = true // until the hold has it
	h := &Hold{c: a.claimable, fence: Fence{Key: key, Token: Token(rev), Nonce: a.me.Nonce}}
	h.life, h.end = context.WithCancelCause(context.Background())
	h.closer = claims.NewCloser(a.s.book, a.me.Nonce, a.s.aside.start)
	if err := a.s.keep(a.me.Nonce, func(ctx context.Context) error { return unlessOver(h.Release(ctx)) }); err != nil {
		return nil, err // the session ended between the Txn and here: given up behind
	}
	if !a.s.aside.start(h.watch) {
		return nil, fmt.Errorf("session %w", fault.ErrClosed)
	}
	return h, nil
}

// Token is the hold's fencing token.
func (h *Hold) Token() Token { return h.fence.Token }

// Fence proves that the hold is current, for anybody's Txn.
func (h *Hold) Fence() Fence { return h.fence }

// Done is closed when the hold is over: released, taken away, or its session
// ended.
func (h *Hold) Done() <-chan struct{} { return h.life.Done() }

// Context returns a context that ends with parent, with cancel, with the session
// (cause [ErrSessionLost]), or with the hold: cause [ErrFenced] when the claim was
// taken away, [ErrClosed] when it was released.
func (h *Hold) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancelSession := h.c.s.Context(parent)
	ctx, cancel := context.WithCancelCause(ctx)
	if h.life.Err() != nil { // AfterFunc is a goroutine away
		cancel(context.Cause(h.life))
	}
	stop := context.AfterFunc(h.life, func() { cancel(context.Cause(h.life)) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
		cancelSession()
	}
}

// Commit applies ops only while the hold is current, as [Session.Commit] does.
func (h *Hold) Commit(ctx context.Context, ops ...clientv3.Op) (Result, error) {
	return h.c.s.Commit(ctx, []Fence{h.fence}, ops...)
}

// Verify proves with one linearizable Txn that the hold is current in this
// moment, and that nobody may take it: nil; [ErrFenced]; [ErrSessionLost] when the
// session is gone; or another error when etcd could not tell.
func (h *Hold) Verify(ctx context.Context) error {
	s := h.c.s
	resp, err := s.store.Read(ctx, clientv3.OpGet(h.fence.Key), clientv3.OpGet(s.key))
	if err != nil {
		return fmt.Errorf("verify %s: %w", h.c.Keys.What, err)
	}
	if err := h.judge(resp.Responses[0].GetResponseRange().Kvs); err != nil {
		return fmt.Errorf("verify %s: %w", h.c.Keys.What, err)
	}
	if kvs := resp.Responses[1].GetResponseRange().Kvs; len(kvs) != 1 || kvs[0].CreateRevision != s.createRev {
		return fmt.Errorf("verify %s: %w", h.c.Keys.What, sessionGone())
	}
	return nil
}

// Release gives the claim up: to the first waiter, where there is one. It blocks
// until that is certain or ctx ends; then it goes on behind, again and again while the
// session lives. It returns nil when the claim was given up, [ErrFenced] when it was not
// ours any more, [ErrUnknown] when ctx ended first or the outcome is lost; after any
// other error the hold is as before. A further call waits for the first and returns the
// same.
func (h *Hold) Release(ctx context.Context) error {
	way := h.way(func(v line.View) (etcdkv.Txn, string, error) {
		txn, wrote := h.c.txns.Release(h.fence.claim(), v, h.c.s.clock().wall)
		return txn, wrote, nil
	})
	way.GivesUp = true
	return h.givenUp(h.closer.Close(ctx, way))
}

// Transfer hands the claim over, in one Txn, to the waiter of the session named,
// so that there is no moment without an owner. Without such a waiter it returns
// [ErrRefused] and changes nothing, and for a hold that was given up otherwise
// [ErrClosed]. Otherwise it is like [Hold.Release].
func (h *Hold) Transfer(ctx context.Context, sid string) error {
	err := h.closer.Close(ctx, h.way(func(v line.View) (etcdkv.Txn, string, error) {
		e, err := v.Waiter(sid, h.c.Keys.What)
		if err != nil {
			return etcdkv.Txn{}, "", err
		}
		return h.c.txns.Transfer(h.fence.claim(), e, h.c.s.clock().wall), e.Claim, nil
	}))
	if errors.Is(err, claims.ErrSettled) { // another call transferred or released it
		return fmt.Errorf("transfer %s: hold %w", h.c.Keys.What, fault.ErrClosed)
	}
	return h.givenUp(err)
}

// givenUp is what a caller hears of giving the claim up.
func (h *Hold) givenUp(err error) error {
	if err == nil || errors.Is(err, claims.ErrSettled) {
		return nil
	}
	return fmt.Errorf("release %s: %w", h.c.Keys.What, err)
}

// unlessOver is err, unless it says that there is nothing left to end.
func unlessOver(err error) error {
	if errors.Is(err, ErrFenced) || errors.Is(err, claims.ErrSettled) {
		return nil
	}
	return err
}

// way ends the hold by the Txn that build makes of what it sees; the nonce that build
// returns is the one that its Txn writes, "" when it deletes the key.
func (h *Hold) way(build func(line.View) (etcdkv.Txn, string, error)) claims.Way {
	var wrote []string
	return claims.Way{
		Try: func(ctx context.Context) claims.Outcome {
			v, err := h.c.Read(ctx)
			if err != nil {
				return notRead(err)
			}
			if err := v.Current(h.fence.claim()); err != nil {
				return claims.Outcome{Verdict: claims.Fenced, Err: err}
			}
			txn, nonce, err := build(v)
			if err != nil {
				return claims.Outcome{Verdict: claims.Refused, Err: err}
			}
			wrote = append(wrote, nonce)
			_, o := h.c.s.committer.Attempt(ctx, txn)
			return o
		},
		Followed: func(ctx context.Context) (claims.Verdict, error) { return h.followed(ctx, wrote) },
		Unknown:  fault.Unknown,
		Over: func(err error) {
			if err == nil {
				err = fmt.Errorf("hold %w", fault.ErrClosed)
			}
			h.end(err)
		},
	}
}

// notRead is the outcome of a try that got no further than reading.
func notRead(err error) claims.Outcome {
	if etcdkv.IsAuthError(err) {
		return claims.Outcome{Verdict: claims.Refused, Err: err}
	}
	return claims.Outcome{Verdict: claims.Again, Err: err}
}

// followed finds out what followed the claim, after a try of which that is not known:
// wrote are the nonces that the tries have written.
func (h *Hold) followed(ctx context.Context, wrote []string) (claims.Verdict, error) {
	ev, err := h.c.s.store.NextChange(ctx, h.fence.Key, int64(h.fence.Token))
	if err != nil {
		return claims.Unsure, err
	}
	return line.FollowedBy(ev, h.fence.claim(), wrote)
}
