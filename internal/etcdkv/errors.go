package etcdkv

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

// NotApplied tells whether err proves that the request changed nothing.
func NotApplied(err error) bool {
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

// Passing tells whether an ambiguous error is of the kind that goes away by
// itself, so that repeating is worth it however long it takes: no connection, no
// leader, no answer in time, no room.
func Passing(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return true
	}
	switch CodeOf(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted:
		return !TooLargeToReceive(err)
	}
	return false
}

// TooLargeToReceive recognises a message over gRPC's own limit: our request in a
// server with a small --max-request-bytes, or, after the Txn was applied, its
// answer in a client with a small limit. Nothing tells the two apart.
func TooLargeToReceive(err error) bool {
	return err != nil && strings.Contains(err.Error(), "received message larger than max")
}

// CodeOf is the gRPC code of an error, however it is wrapped.
func CodeOf(err error) codes.Code {
	var e rpctypes.EtcdError
	if errors.As(err, &e) {
		return e.Code()
	}
	return status.Code(err)
}

func isLeaseExists(err error) bool {
	return errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseExist)
}

// IsDenied tells that a role lacks a permission: no repeat helps.
func IsDenied(err error) bool {
	var e rpctypes.EtcdError
	return errors.As(err, &e) && e.Code() == codes.PermissionDenied || status.Code(err) == codes.PermissionDenied
}

// IsAuthError tells that no repeat will help: the client has refreshed its token
// already where that was the cause, or it is closed.
func IsAuthError(err error) bool {
	if errors.Is(err, fault.ErrClientClosed) {
		return true
	}
	c := CodeOf(err)
	return c == codes.PermissionDenied || c == codes.Unauthenticated
}

// IsLeaseNotFound tells that a lease is gone.
func IsLeaseNotFound(err error) bool {
	return errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound)
}

// IsNoSpace tells that etcd was full. That proves nothing yet: its quota is looked at
// before a Txn is applied and once more behind it.
func IsNoSpace(err error) bool {
	return errors.Is(rpctypes.Error(err), rpctypes.ErrNoSpace)
}

// WithWayOut says how to make room, where a refusal is for want of it.
func WithWayOut(err error) error {
	if !IsNoSpace(err) {
		return err
	}
	return fmt.Errorf("etcd is out of space, nothing was written: delete what is not needed, compact, defragment and disarm the alarm: %w", err)
}

// IsCompacted tells that a revision is compacted.
func IsCompacted(err error) bool {
	return errors.Is(rpctypes.Error(err), rpctypes.ErrCompacted)
}

// tooLargeToSend recognises the client's own refusal, which shares its code with
// NOSPACE: only the message tells them apart.
func tooLargeToSend(err error) bool {
	return err != nil && strings.Contains(err.Error(), "trying to send message larger than max")
}
