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

	mu     sync.Mutex
	giving *giving // non-nil once giving up began
}

// giving is one attempt to give a hold up.
type giving struct {
	done chan struct{}
	err  error // valid once done is closed
}

// hold makes the claim ours to use, and watches it.
func (a *acquisition) hold(key string, rev int64) (*Hold, error) {
	a.left = true // until the hold has it
	h := &Hold{c: a.claimable, fence: Fence{Key: key, Token: Token(rev), Nonce: a.me.nonce}}
	h.life, h.end = context.WithCancelCause(context.Background())
	if err := a.s.Adopt(a.me.nonce, h.Release); err != nil {
		return nil, err // the session ended between the Txn and here: given up behind
	}
	if !a.s.aside.start(h.watch) {
		return nil, fmt.Errorf("session %w", ErrClosed)
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
		return fmt.Errorf("verify %s: %w", h.c.keys.what, err)
	}
	if err := h.judge(resp.Responses[0].GetResponseRange().Kvs); err != nil {
		return fmt.Errorf("verify %s: %w", h.c.keys.what, err)
	}
	if kvs := resp.Responses[1].GetResponseRange().Kvs; len(kvs) != 1 || kvs[0].CreateRevision != s.createRev {
		return fmt.Errorf("verify %s: %w", h.c.keys.what, sessionGone())
	}
	return nil
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
// [ErrRefused] and changes nothing. Otherwise it is like [Hold.Release].
func (h *Hold) Transfer(ctx context.Context, sid string) error {
	return h.giveUp(ctx, func(v claimView) (Txn, error) {
		e, err := v.waiter(sid, h.c.keys.what)
		if err != nil {
			return Txn{}, err
		}
		return h.c.txns.transfer(h.fence, e, h.c.s.clock().wall), nil
	})
}

// waiter is the first entry of a session.
func (v claimView) waiter(sid, what string) (entryView, error) {
	for _, e := range v.entries {
		if e.Session == sid {
			return e, nil
		}
	}
	return entryView{}, fmt.Errorf("%w: session %s does not wait for %s", ErrRefused, sid, what)
}

// giveUp ends the hold once, by the Txn that build makes of what it sees.
func (h *Hold) giveUp(ctx context.Context, build func(claimView) (Txn, error)) error {
	for {
		g, mine := h.begin(ctx, build)
		select {
		case <-g.done:
		case <-ctx.Done():
			return fmt.Errorf("release %s: %w", h.c.keys.what, unknown(causeOf(ctx)))
		}
		switch {
		case g.err == nil:
			return nil
		case mine || errors.Is(g.err, ErrFenced):
			return fmt.Errorf("release %s: %w", h.c.keys.what, g.err)
		}
		// Another's attempt changed nothing, such as a transfer that was refused:
		// ours has its turn.
	}
}

// begin starts giving up, or joins who is at it.
func (h *Hold) begin(ctx context.Context, build func(claimView) (Txn, error)) (g *giving, mine bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.giving != nil {
		return h.giving, false
	}
	g = &giving{done: make(chan struct{})}
	h.giving = g
	if !h.c.s.aside.start(func(ctx context.Context) { h.finish(g, h.carry(ctx, build)) }) {
		// The session is closing, and this is its call: it bounds it by its ctx.
		h.mu.Unlock()
		h.finish(g, h.carry(ctx, build))
		h.mu.Lock()
	}
	return g, true
}

// finish ends the hold, unless nothing was changed: then it can be tried again.
func (h *Hold) finish(g *giving, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer close(g.done)
	g.err = err
	switch {
	case err == nil:
		h.end(fmt.Errorf("hold %w", ErrClosed))
	case errors.Is(err, ErrFenced):
		h.end(err)
	default:
		h.giving = nil
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
			if err = v.current(h.fence); err != nil {
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
			if err == nil && try < atOnce {
				continue // somebody came or went: look again at once
			}
		}
		if isAuthError(err) || errors.Is(err, ErrClosed) {
			return err
		}
		if perr := pause(ctx, max(0, try-atOnce)); perr != nil {
			return unknown(errors.Join(perr, err))
		}
	}
}

// current tells whether the view shows the claim of a fence.
func (v claimView) current(f Fence) error {
	for _, s := range v.slots {
		if s.key != f.Key {
			continue
		}
		if Token(s.rev) == f.Token && s.nonce == f.Nonce {
			return nil
		}
		return &FencedError{Key: f.Key, Wanted: f.Token, Current: Token(s.rev)}
	}
	return &FencedError{Key: f.Key, Wanted: f.Token}
}
