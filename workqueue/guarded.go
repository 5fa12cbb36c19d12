package workqueue

import (
	"bytes"
	"errors"
	"fmt"
	"runtime/debug"

	"go.uber.org/zap"
)

// Code of the caller's runs in goroutines of a worker: handlers, hooks, the methods of
// their errors, encoders. A panic of it is an error like any other, since the process
// and the other jobs in it are not its to end.

// panicError is a panic of such code.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return fmt.Sprintf("panic: %v\n%s", p.value, p.stack) }

// guarded calls f and turns a panic into an error.
func guarded(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{value: v, stack: topOf(debug.Stack())}
		}
	}()
	return f()
}

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

// textOf is err's text, whatever its method does.
func textOf(err error) (text string) {
	if p := guarded(func() error { text = err.Error(); return nil }); p != nil {
		return fmt.Sprintf("an error of type %T that cannot be printed: %v", err, p)
	}
	return text
}

// outcomeOf is what a handler's error asks for; nil means nothing but a failure.
func outcomeOf(err error) (o *outcomeError) {
	// A panic in a method of the error asks for nothing.
	_ = guarded(func() error { errors.As(err, &o); return nil })
	return o
}

// matches is errors.Is, whatever the methods of err do.
func matches(err, target error) (is bool) {
	_ = guarded(func() error { is = errors.Is(err, target); return nil })
	return is
}

// guardedHook calls a hook and logs a panic.
func guardedHook(log *zap.Logger, name string, call func()) {
	if err := guarded(func() error { call(); return nil }); err != nil {
		log.Error("hook panicked", zap.String("hook", name), zap.Error(err))
	}
}
