package coord

import (
	"context"
	"errors"
	"fmt"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Hold is a claim that is held: a lock, a permit, or a leadership. It ends with
// Release, with its session, or when somebody else takes the claim away. Safe for
// concurrent use.
type Hold struct {
	c     *claimable
	fence Fence

	life context.Context // ends with the hold; its cause is why
	end  context.CancelCauseFunc

	mu       sync.Mutex
	released chan struct{} // non-nil once a release began; closed when it is over
	err      error
}

// hold makes the claim ours to use, and watches it.
func (a *acquisition) hold(key string, rev int64) (*Hold, error) {
	h := &Hold{c: a.claimable, fence: Fence{Key: key, Token: Token(rev), Nonce: a.me.nonce}}
	h.life, h.end = context.WithCancelCause(context.Background())
	if err := a.s.Adopt(a.me.nonce, h.Release); err != nil {
		return nil, err // the session ended between the Txn and here: given up behind
	}
	if !a.s.aside.start(func(ctx context.Context) { h.watch(ctx) }) {
		return nil, ErrClosed
	}
	return h, nil
}

// Token is the hold's fencing token.
func (h *Hold) Token() Token { return h.fence.Token }

// Fence proves that the hold is current, for anybody's Txn.
func (h *Hold) Fence() Fence { return h.fence }

// Done is closed when the hold is over: released, taken away, or its session
// ended.
func (h *Hold) Done() <-chan struct{} {
	ctx, _ := h.Context(context.Background()) // ends with the hold itself
	return ctx.Done()
}

// Context returns a context that ends with parent, with cancel, with the session
// (cause [ErrSessionLost]), or with the hold: cause [ErrFenced] when the claim was
// taken away, [ErrClosed] when it was released.
func (h *Hold) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancelSession := h.c.s.Context(parent)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(h.life, func() { cancel(context.Cause(h.life)) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
		cancelSession()
	}
}

// Commit applies ops only while the hold is current, as [Session.Commit] does.
func (h *Hold) Commit(ctx context.Context, ops ...clientv3.Op) (CommitResult, error) {
	return h.c.s.Commit(ctx, []Fence{h.fence}, ops...)
}

// Verify proves with one linearizable Txn that the hold is current in this
// moment: nil; [ErrFenced]; or another error when etcd could not tell.
func (h *Hold) Verify(ctx context.Context) error {
	resp, err := h.c.s.store.Read(ctx, clientv3.OpGet(h.fence.Key))
	if err != nil {
		return fmt.Errorf("verify %s: %w", h.c.keys.what, err)
	}
	return h.judge(resp.Responses[0].GetResponseRange().Kvs)
}

// Release gives the claim up: to the first waiter, where there is one. It blocks
// until that is certain or ctx ends; then it goes on behind. It returns nil when the
// claim was given up, [ErrFenced] when it was not ours any more, [ErrUnknown] when
// ctx ended first. A further call waits for the first and returns the same.
func (h *Hold) Release(ctx context.Context) error {
	return h.giveUp(ctx, func(v claimView) (Txn, error) { return h.c.txns.release(h.fence, v, h.c.s.clock().wall), nil })
}

// Transfer hands the claim over, in one Txn, to the waiter of the session named,
// so that there is no moment without an owner. Without such a waiter it returns
// [ErrRefused] and changes nothing.
func (h *Hold) Transfer(ctx context.Context, sid string) error {
	return h.giveUp(ctx, func(v claimView) (Txn, error) {
		for _, e := range v.entries {
			if e.Session == sid {
				return h.c.txns.transfer(h.fence, e, h.c.s.clock().wall), nil
			}
		}
		return Txn{}, fmt.Errorf("%w: session %s does not wait for %s", ErrRefused, sid, h.c.keys.what)
	})
}

// giveUp ends the hold once, by the Txn that build makes of what it sees.
func (h *Hold) giveUp(ctx context.Context, build func(claimView) (Txn, error)) error {
	h.mu.Lock()
	if h.released == nil {
		h.released = make(chan struct{})
		released := h.released
		if !h.c.s.aside.start(func(ctx context.Context) { h.finish(h.carry(ctx, build), released) }) {
			// The session is closing, and this is its call: it bounds it by its ctx.
			h.mu.Unlock()
			h.finish(h.carry(ctx, build), released)
			h.mu.Lock()
		}
	}
	released := h.released
	h.mu.Unlock()
	select {
	case <-released:
	case <-ctx.Done():
		return fmt.Errorf("release %s: %w", h.c.keys.what, unknown(causeOf(ctx)))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return fmt.Errorf("release %s: %w", h.c.keys.what, h.err)
	}
	return nil
}

// finish ends the hold, unless nothing was changed: then it can be tried again.
func (h *Hold) finish(err error, released chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer close(released)
	h.err = err
	switch {
	case err == nil:
		h.end(fmt.Errorf("hold %w", ErrClosed))
	case errors.Is(err, ErrFenced):
		h.end(err)
	default:
		h.released = nil
		return
	}
	h.c.s.Forget(h.fence.Nonce)
}

// carry sends the Txn until its outcome is certain. Each try changes the slot's
// revision or nothing, so repeating an unknown one is safe, and a refusal behind an
// unknown try is its success.
func (h *Hold) carry(ctx context.Context, build func(claimView) (Txn, error)) error {
	unsure := false
	for try := 0; ; try++ {
		v, err := h.c.read(ctx)
		var txn Txn
		if err == nil {
			if err = h.fenceIn(v); err != nil {
				if unsure {
					return nil
				}
				return err
			}
			if txn, err = build(v); err != nil {
				return err
			}
			var r Result
			if r, err = h.c.s.committer.Do(ctx, txn); err == nil && r.Succeeded {
				return nil
			}
			unsure = unsure || errors.Is(err, ErrUnknown)
			if err == nil {
				try = 0 // somebody came or went: look again at once
				continue
			}
		}
		if isAuthError(err) || errors.Is(err, ErrClosed) {
			return err
		}
		if perr := pause(ctx, try); perr != nil {
			return unknown(errors.Join(perr, err))
		}
	}
}

// fenceIn tells whether the view shows our claim.
func (h *Hold) fenceIn(v claimView) error {
	for _, s := range v.slots {
		if s.key != h.fence.Key {
			continue
		}
		if Token(s.rev) == h.fence.Token && s.nonce == h.fence.Nonce {
			return nil
		}
		return &FencedError{Key: h.fence.Key, Wanted: h.fence.Token, Current: Token(s.rev)}
	}
	return &FencedError{Key: h.fence.Key, Wanted: h.fence.Token}
}
