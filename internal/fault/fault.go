// Package fault has the errors that all of Leasekit shares. Packages that users import
// show them under names of their own; what they say is written once, here.
package fault

import (
	"context"
	"errors"
	"fmt"
	"strconv"
)

var (
	// ErrInvalid matches every [InputError].
	ErrInvalid = errors.New("invalid input")
	// ErrSessionLost is the cause of contexts that ended with their session.
	ErrSessionLost = errors.New("session lost")
	// ErrHistoryRewound means that the cluster's history went back.
	ErrHistoryRewound = fmt.Errorf("%w: etcd's history went back", ErrSessionLost)
	// ErrClosed means that we closed it: a session, committer, queue or etcd client.
	ErrClosed = errors.New("closed")
	// ErrClientClosed means that the caller has closed the etcd client. Nothing is sent
	// any more, and no repeat helps.
	ErrClientClosed = fmt.Errorf("the etcd client is %w", ErrClosed)
	// ErrFenced matches every [FencedError].
	ErrFenced = errors.New("fenced: the claim is no longer current")
	// ErrUnknown means that a write may or may not have been applied.
	ErrUnknown = errors.New("outcome unknown")
	// ErrRefused means that nothing was written: a compare did not hold.
	ErrRefused = errors.New("refused: a compare did not hold")
	// ErrNotSent marks requests that were given up before they were sent.
	ErrNotSent = errors.New("not sent")
)

// InputError tells which field is wrong, what its value was, and what would do.
type InputError struct {
	// Field is the name of the parameter, such as "queue" or "payload".
	Field string
	// Value is the offending value, shortened where it is long.
	Value string
	// Reason says what is wrong and what is accepted.
	Reason string
}

// Error names the field, the value and the way out.
func (e *InputError) Error() string {
	v := e.Value
	if len(v) > 64 {
		v = v[:64] + "..."
	}
	return "invalid " + e.Field + " " + strconv.Quote(v) + ": " + e.Reason
}

// Is makes errors.Is(err, ErrInvalid) true.
func (e *InputError) Is(target error) bool { return target == ErrInvalid }

// Unknown wraps the reasons why an outcome could not be found out.
func Unknown(causes ...error) error {
	err := ErrUnknown
	for _, c := range causes {
		if c != nil {
			err = fmt.Errorf("%w: %w", err, c)
		}
	}
	return err
}

// IsInvalid tells whether err is of bad input.
func IsInvalid(err error) bool { return errors.Is(err, ErrInvalid) }

// CauseOf prefers the cause over "context canceled".
func CauseOf(ctx context.Context) error {
	if c := context.Cause(ctx); c != nil {
		return c
	}
	return ctx.Err()
}

// FencedError is a refused write: the claim with the wanted token is not current.
type FencedError struct {
	Key             string
	Wanted, Current int64 // tokens; Current is zero where the key is gone
}

// Error names the key and both tokens.
func (e *FencedError) Error() string {
	switch e.Current {
	case 0:
		return fmt.Sprintf("fenced: %s is gone, token %d is no longer current", e.Key, e.Wanted)
	case e.Wanted:
		return fmt.Sprintf("fenced: %s is at token %d, but of another claim: the nonce is a wrong one, or etcd's history went back", e.Key, e.Wanted)
	}
	return fmt.Sprintf("fenced: %s is at token %d, not %d", e.Key, e.Current, e.Wanted)
}

// Is makes errors.Is(err, ErrFenced) true.
func (e *FencedError) Is(target error) bool { return target == ErrFenced }

// publish makes the public twin of an error of this package, for errors.As.
var publish func(e error, target any) bool

// Publish says how to fill in target, which errors.As was given, with the public twin of
// an InputError or a FencedError; it is false for targets of another type. Package coord
// calls it as it is initialised, and nobody else.
func Publish(as func(e error, target any) bool) { publish = as }

// As makes errors.As find the public twin.
func (e *InputError) As(target any) bool { return publish != nil && publish(e, target) }

// As makes errors.As find the public twin.
func (e *FencedError) As(target any) bool { return publish != nil && publish(e, target) }
