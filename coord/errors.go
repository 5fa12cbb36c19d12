package coord

import (
	"errors"

	"github.com/leasekit/leasekit/internal/fault"
)

// Bad input: nothing was sent.
var (
	// ErrInvalid matches every [InputError].
	ErrInvalid = fault.ErrInvalid
)

// The session is over: claims are no longer ours to work on.
var (
	// ErrSessionLost is the cause of contexts that ended with their session.
	ErrSessionLost = fault.ErrSessionLost
	// ErrHistoryRewound means that the cluster's history went back, as after a
	// restore from a backup. It matches ErrSessionLost too.
	ErrHistoryRewound = fault.ErrHistoryRewound
	// ErrClosed means that the session, queue or etcd client was closed by us.
	ErrClosed = fault.ErrClosed
)

// The write's outcome.
var (
	// ErrFenced matches every [FencedError]: the write was refused because the
	// claim is no longer current. Nothing was written.
	ErrFenced = fault.ErrFenced
	// ErrUnknown means that the write may or may not have been applied and that
	// it could not be found out. Repeating it is not safe; read first.
	ErrUnknown = fault.ErrUnknown
	// ErrRefused means that nothing was written: a compare other than a fence did not
	// hold, or one did not and what was in its way can not be read.
	ErrRefused = fault.ErrRefused
	// ErrHeld means that a claim could not be had without waiting.
	ErrHeld = errors.New("held by somebody else")
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
func (e *InputError) Error() string { return (*fault.InputError)(e).Error() }

// Is makes errors.Is(err, ErrInvalid) true.
func (e *InputError) Is(target error) bool { return target == ErrInvalid }

// FencedError is a refused write: the claim with the wanted token is not
// current. It matches [ErrFenced].
type FencedError struct {
	// Key is the claimed key.
	Key string
	// Wanted is the token that the write carried.
	Wanted Token
	// Current is the key's mod revision at the refusal, zero when it is gone.
	Current Token
}

// Error names the key and both tokens.
func (e *FencedError) Error() string {
	return (&fault.FencedError{Key: e.Key, Wanted: int64(e.Wanted), Current: int64(e.Current)}).Error()
}

// Is makes errors.Is(err, ErrFenced) true.
func (e *FencedError) Is(target error) bool { return target == ErrFenced }

// What Leasekit's own packages find wrong, or refused, are these errors to everybody else.
func init() {
	fault.Publish(func(e error, target any) bool {
		switch target := target.(type) {
		case **InputError:
			inner, ok := e.(*fault.InputError)
			if ok {
				*target = (*InputError)(inner)
			}
			return ok
		case **FencedError:
			inner, ok := e.(*fault.FencedError)
			if ok {
				*target = &FencedError{Key: inner.Key, Wanted: Token(inner.Wanted), Current: Token(inner.Current)}
			}
			return ok
		}
		return false
	})
}
