package election

import (
	"context"
	"fmt"
	"runtime/debug"

	"go.uber.org/zap"
)

// panicError is a panic of the leader's function.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string {
	return fmt.Sprintf("the leader's function panicked: %v\n%s", p.value, p.stack)
}

// call runs the leader's function and turns a panic into an error.
func call(ctx context.Context, t *Term, fn func(context.Context, *Term) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{v, debug.Stack()}
		}
	}()
	return fn(ctx, t)
}

// guarded returns hooks that are never nil and never panic: what one of them does must
// not cost the term, or its process.
func (h Hooks) guarded(log *zap.Logger) Hooks {
	guard := func(name string, call func()) {
		defer func() {
			if v := recover(); v != nil {
				log.Error("hook panicked", zap.String("hook", name), zap.Any("panic", v), zap.Stack("stack"))
			}
		}()
		call()
	}
	return Hooks{
		Elected: func(t *Term) {
			if h.Elected != nil {
				guard("Elected", func() { h.Elected(t) })
			}
		},
		Ended: func(t *Term, cause error) {
			if h.Ended != nil {
				guard("Ended", func() { h.Ended(t, cause) })
			}
		},
		Stuck: func(t *Term) {
			if h.Stuck != nil {
				guard("Stuck", func() { h.Stuck(t) })
			}
		},
	}
}
