package lane

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
	"github.com/leasekit/leasekit/internal/faultkv"
)

func TestNotAppliedIsOnlyWhatProvesIt(t *testing.T) {
	tests := []struct {
		err  error
		want bool
	}{
		{rpctypes.ErrLeaseNotFound, true},
		{rpctypes.ErrGRPCLeaseNotFound, true}, // as the server sends it
		{fmt.Errorf("wrapped: %w", rpctypes.ErrDuplicateKey), true},
		{rpctypes.ErrTooManyOps, true},
		{rpctypes.ErrEmptyKey, true},
		{rpctypes.ErrKeyNotFound, true},
		{rpctypes.ErrRequestTooLarge, true},
		{rpctypes.ErrPermissionDenied, true},
		{rpctypes.ErrCompacted, true},
		{rpctypes.ErrFutureRev, true},
		{rpctypes.ErrInvalidAuthToken, true},
		{status.Error(codes.ResourceExhausted, "trying to send message larger than max (3 vs. 2)"), true},
		{fmt.Errorf("%w: gave up", fault.ErrNotSent), true},

		{rpctypes.ErrNoSpace, false}, // applied first, then refused
		{rpctypes.ErrTimeout, false},
		{rpctypes.ErrTimeoutDueToLeaderFail, false},
		{rpctypes.ErrTimeoutDueToConnectionLost, false},
		{rpctypes.ErrLeaderChanged, false},
		{rpctypes.ErrNoLeader, false},
		{rpctypes.ErrStopped, false},
		{rpctypes.ErrTooManyRequests, false},
		{rpctypes.ErrCorrupt, false},
		{rpctypes.ErrAuthOldRevision, false},
		{context.DeadlineExceeded, false},
		{context.Canceled, false},
		{faultkv.ErrLost, false},
		{status.Error(codes.Unknown, "EOF"), false},
		{status.Error(codes.Internal, "stream terminated"), false},
		{status.Error(codes.ResourceExhausted, "grpc: received message larger than max (3 vs. 2)"), false},
		{errors.New("anything"), false},
		{fault.ErrHistoryRewound, false},
	}
	for _, tt := range tests {
		if got := etcdkv.NotApplied(tt.err); got != tt.want {
			t.Errorf("notApplied(%v): got %v, want %v", tt.err, got, tt.want)
		}
	}
}

func TestFinalErrorsAreNotRepeatedForEver(t *testing.T) {
	tooLarge := status.Error(codes.ResourceExhausted, "grpc: received message larger than max (3 vs. 2)")
	tests := []struct {
		err  error
		try  int
		want bool
	}{
		{rpctypes.ErrLeaseNotFound, 1, true},
		{tooLarge, 0, true},
		{status.Error(codes.Internal, "?"), 0, false},
		{status.Error(codes.Internal, "?"), stubborn, true},
		{rpctypes.ErrCorrupt, stubborn, true},
		{faultkv.ErrLost, 100, false},
		{rpctypes.ErrNoSpace, 100, false},
		{context.DeadlineExceeded, 100, false},
		{fault.ErrNotSent, 100, false},
	}
	for _, tt := range tests {
		if got := final(tt.err, tt.try); got != tt.want {
			t.Errorf("final(%v, %d): got %v, want %v", tt.err, tt.try, got, tt.want)
		}
	}
}

func TestUnknownKeepsItsCauses(t *testing.T) {
	err := fault.Unknown(nil, errLaneGone, nil, faultkv.ErrLost)
	for _, want := range []error{fault.ErrUnknown, errLaneGone, faultkv.ErrLost} {
		if !errors.Is(err, want) {
			t.Errorf("%v: want it to wrap %v", err, want)
		}
	}
	if fault.Unknown() != fault.ErrUnknown {
		t.Errorf("without a cause: got %v", fault.Unknown())
	}
}
