// Package usercode calls code that is the user's: handlers, hooks, the methods of their
// errors, encoders. A panic of it is an error like any other, since the process, and
// whatever else runs in it, are not its to end.
package usercode

import (
	"bytes"
	"fmt"
	"runtime/debug"

	"go.uber.org/zap"
)

// PanicError is a panic of such code.
type PanicError struct {
	value any
	stack []byte
}

// Error is what was panicked with, and where.
func (p *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", p.value, p.stack) }

// maxStack is how much of a stack an error keeps, in bytes.
const maxStack = 512

// Call calls f and turns a panic into a [PanicError].
func Call(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{value: v, stack: topOf(debug.Stack())}
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
	return stack[:min(len(stack), maxStack)]
}

// TextOf is err's text, whatever its method does.
func TextOf(err error) (text string) {
	if p := Call(func() error { text = err.Error(); return nil }); p != nil {
		return fmt.Sprintf("an error of type %T that cannot be printed: %v", err, p)
	}
	return text
}

// Hook calls a hook and logs a panic: what it does must not cost what it is told of.
func Hook(log *zap.Logger, name string, call func()) {
	if err := Call(func() error { call(); return nil }); err != nil {
		log.Error("hook panicked", zap.String("hook", name), zap.Error(err))
	}
}
