package coord

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leasekit/leasekit/internal/fault"
)

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
	if errors.Is(err, fault.ErrNotSent) || errors.Is(err, fault.ErrClientClosed) {
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
	if errors.Is(err, fault.ErrClientClosed) {
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

// tooLargeToSend recognises the client's own refusal, which shares its code with
// NOSPACE: only the message tells them apart.
func tooLargeToSend(err error) bool {
	return err != nil && strings.Contains(err.Error(), "trying to send message larger than max")
}
