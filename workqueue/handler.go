package workqueue

import (
	"context"
	"errors"

	"github.com/leasekit/leasekit/internal/usercode"
)

// Handler works jobs.
type Handler interface {
	// Handle works one claim and returns its result. Ctx ends when the work should
	// stop: see [Claim.Context] for the causes, and [ErrAttemptTimeout] and
	// [ErrDraining]. A handler that goes on regardless is abandoned after a grace:
	// its claim is given up and what it returns later is refused.
	//
	// An error counts as a failed attempt, unless it is one of [Permanent],
	// [RetryAfter], [Snooze] and [Cancel], or ctx had ended because the worker
	// stops or lost its session: then the job is released, counted as nothing. A
	// panic is a failed attempt. A handler that closed its claim itself returns nil.
	Handle(ctx context.Context, c *Claim) ([]byte, error)
}

// HandlerFunc makes a Handler of a function. It handles every kind.
type HandlerFunc func(ctx context.Context, c *Claim) ([]byte, error)

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, c *Claim) ([]byte, error) { return f(ctx, c) }

// kinded is a handler that works some kinds only; others are left alone.
type kinded interface{ Kinds() []string }

// wrapper is a handler that wraps another one.
type wrapper interface{ Unwrap() Handler }

// kindsOf asks a handler, or what it wraps, for the kinds that it works. None without
// an error means all.
func kindsOf(h Handler) (kinds []string, err error) {
	err = usercode.Call(func() error {
		for h != nil {
			if k, ok := h.(kinded); ok {
				if kinds = k.Kinds(); len(kinds) == 0 {
					return errors.New("it knows no kind; register handlers first")
				}
				return nil
			}
			w, ok := h.(wrapper)
			if !ok {
				return nil
			}
			h = w.Unwrap()
		}
		return nil
	})
	return kinds, err
}

// call runs the handler and turns a panic into an error.
func call(ctx context.Context, h Handler, c *Claim) (result []byte, err error) {
	if err = usercode.Call(func() error {
		result, err = h.Handle(ctx, c)
		return err
	}); err != nil {
		return nil, err
	}
	return result, nil
}
