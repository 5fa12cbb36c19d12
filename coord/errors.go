package coord

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Bad input: nothing was sent.
var (
	// ErrInvalid matches every [InputError].
	ErrInvalid = errors.New("invalid input")
)

// The session is over: claims are no longer ours to work on.
var (
	// ErrSessionLost is the cause of contexts that ended with their session.
	ErrSessionLost = errors.New("session lost")
	// ErrHistoryRewound means that the cluster's history went back, as after a
	// restore from a backup. It matches ErrSessionLost too.
	ErrHistoryRewound = fmt.Errorf("%w: etcd's history went back", ErrSessionLost)
	// ErrClosed means that the session, committer, queue or etcd client was closed by us.
	ErrClosed = errors.New("closed")
)

// The write's outcome.
var (
	// ErrFenced matches every [FencedError]: the write was refused because the
	// claim is no longer current. Nothing was written.
	ErrFenced = errors.New("fenced: the claim is no longer current")
	// ErrUnknown means that the write may or may not have been applied and that
	// it could not be found out. Repeating it is not safe; read first.
	ErrUnknown = errors.New("outcome unknown")
	// ErrHeld means that a claim could not be had without waiting.
	ErrHeld = errors.New("held by somebody else")
	// ErrRefused means that nothing was written: a compare other than a fence did not
	// hold, or one did not and what was in its way can not be read.
	ErrRefused = errors.New("refused: a compare did not hold")
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
	if e.Current.IsZero() {
		return fmt.Sprintf("fenced: %s is gone, token %s is no longer current", e.Key, e.Wanted)
	}
	if e.Current == e.Wanted {
		return fmt.Sprintf("fenced: %s is at token %s, but of another claim: the nonce is a wrong one, or etcd's history went back", e.Key, e.Wanted)
	}
	return fmt.Sprintf("fenced: %s is at token %s, not %s", e.Key, e.Current, e.Wanted)
}

// Is makes errors.Is(err, ErrFenced) true.
func (e *FencedError) Is(target error) bool { return target == ErrFenced }

// unknown wraps the reasons why an outcome could not be found out.
func unknown(causes ...error) error {
	err := ErrUnknown
	for _, c := range causes {
		if c != nil {
			err = fmt.Errorf("%w: %w", err, c)
		}
	}
	return err
}

// errCutShort is why a committer that was closed does not know an outcome. It is
// not ErrClosed, which promises that nothing was written.
var errCutShort = errors.New("closed before the answer came")

// definite are the answers that prove that a Txn was not applied. Everything
// else is ambiguous: NOSPACE too, because etcd's quota applier applies first and
// then complains.
var definite = []error{
	rpctypes.ErrLeaseNotFound,
	rpctypes.ErrLeaseTTLTooLarge,
	rpctypes.ErrTooManyOps,
	rpctypes.ErrDuplicateKey,
	rpctypes.ErrEmptyKey,
	rpctypes.ErrKeyNotFound, // WithIgnoreLease or WithIgnoreValue on a missing key
	rpctypes.ErrRequestTooLarge,
	rpctypes.ErrPermissionDenied,
	rpctypes.ErrCompacted,
	rpctypes.ErrFutureRev,
	rpctypes.ErrUserEmpty,
	rpctypes.ErrUserNotFound,
	rpctypes.ErrAuthFailed,
	rpctypes.ErrInvalidAuthToken,
	rpctypes.ErrLeaseProvided,
	rpctypes.ErrValueProvided,
	rpctypes.ErrInvalidSortOption,
}

// notApplied tells whether err proves that the request changed nothing.
func notApplied(err error) bool {
	if errors.Is(err, errNotSent) || errors.Is(err, errClientClosed) {
		return true
	}
	err = rpctypes.Error(err)
	for _, d := range definite {
		if errors.Is(err, d) {
			return true
		}
	}
	//mutant:no-space-ambiguous
	return tooLargeToSend(err) //mutant:deadline-ambiguous
}

// errNotSent marks requests that were given up before they were sent.
var errNotSent = errors.New("not sent")

// passing tells whether an ambiguous error is of the kind that goes away by
// itself, so that repeating is worth it however long it takes: no connection, no
// leader, no answer in time, no room.
func passing(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return true
	}
	switch codeOf(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted:
		return !tooLargeToReceive(err)
	}
	return false
}

// tooLargeToReceive recognises a message over gRPC's own limit: our request in a
// server with a small --max-request-bytes, or, after the Txn was applied, its
// answer in a client with a small limit. Nothing tells the two apart.
func tooLargeToReceive(err error) bool {
	return err != nil && strings.Contains(err.Error(), "received message larger than max")
}

func codeOf(err error) codes.Code {
	var e rpctypes.EtcdError
	if errors.As(err, &e) {
		return e.Code()
	}
	return status.Code(err)
}

func isLeaseExists(err error) bool {
	return errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseExist)
}

// isDenied tells that a role lacks a permission, which only somebody else can change.
func isDenied(err error) bool {
	var e rpctypes.EtcdError
	return errors.As(err, &e) && e.Code() == codes.PermissionDenied || status.Code(err) == codes.PermissionDenied
}

// isAuthError tells that no repeat will help: the client has refreshed its token
// already where that was the cause, or it is closed.
func isAuthError(err error) bool {
	if errors.Is(err, errClientClosed) {
		return true
	}
	c := codeOf(err)
	return c == codes.PermissionDenied || c == codes.Unauthenticated
}

func isLeaseNotFound(err error) bool {
	return errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound)
}

// isNoSpace tells that etcd was full. That proves nothing yet: its quota is looked at
// before a Txn is applied and once more behind it.
func isNoSpace(err error) bool {
	return errors.Is(rpctypes.Error(err), rpctypes.ErrNoSpace)
}

// withWayOut says how to make room, where a refusal is for want of it.
func withWayOut(err error) error {
	if !isNoSpace(err) {
		return err
	}
	return fmt.Errorf("etcd is out of space, nothing was written: delete what is not needed, compact, defragment and disarm the alarm: %w", err)
}

func isCompacted(err error) bool {
	return errors.Is(rpctypes.Error(err), rpctypes.ErrCompacted)
}

func isInvalid(err error) bool { return errors.Is(err, ErrInvalid) }

// causeOf prefers the cause over "context canceled".
func causeOf(ctx context.Context) error {
	if c := context.Cause(ctx); c != nil {
		return c
	}
	return ctx.Err()
}
