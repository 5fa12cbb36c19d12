package etcdkv

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leasekit/leasekit/internal/fault"
)

// An etcd that gives no answer is not taken for a caller who had no time.
func TestUnansweredTellsWhoseTimeWasOver(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range []error{context.DeadlineExceeded, status.Error(codes.DeadlineExceeded, "late")} {
		if got := unanswered(t.Context(), err); !errors.Is(got, err) || !strings.Contains(got.Error(), "no answer within 3s") {
			t.Errorf("%v: %v", err, got)
		}
		if got := unanswered(over, err); got != err {
			t.Errorf("%v, and the caller had gone: %v", err, got)
		}
	}
	for _, err := range []error{nil, context.Canceled, fault.ErrHistoryRewound} {
		if got := unanswered(t.Context(), err); got != err {
			t.Errorf("%v: %v", err, got)
		}
	}
}
