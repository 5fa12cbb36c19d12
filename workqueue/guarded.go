package workqueue

import (
	"errors"

	"github.com/leasekit/leasekit/internal/usercode"
)

// outcomeOf is what a handler's error asks for; nil means nothing but a failure.
func outcomeOf(err error) (o *outcomeError) {
	// A panic in a method of the error asks for nothing.
	_ = usercode.Call(func() error { errors.As(err, &o); return nil })
	return o
}

// matches is errors.Is, whatever the methods of err do.
func matches(err, target error) (is bool) {
	_ = usercode.Call(func() error { is = errors.Is(err, target); return nil })
	return is
}
