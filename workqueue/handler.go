package workqueue

import (
	"bytes"
	"context"
	"fmt"
	"runtime/debug"
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

// panicError is a panic of a handler.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return fmt.Sprintf("panic: %v\n%s", p.value, p.stack) }

// topOf keeps the frames from where the panic began: they say most, and errors are
// cut from the front.
func topOf(stack []byte) []byte {
	if _, below, ok := bytes.Cut(stack, []byte("\npanic(")); ok {
		if _, frames, ok := bytes.Cut(below, []byte("\n\t")); ok {
			_, stack, _ = bytes.Cut(frames, []byte("\n"))
		}
	}
	return stack[:min(len(stack), maxError/2)]
}

// call runs the handler and turns a panic into an error.
func call(ctx context.Context, h Handler, c *Claim) (result []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			result, err = nil, &panicError{value: v, stack: topOf(debug.Stack())}
		}
	}()
	return h.Handle(ctx, c)
}
