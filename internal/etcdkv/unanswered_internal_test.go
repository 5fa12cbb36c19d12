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

// However a server hangs up on what it does not understand, the cause says what that may
// mean. What is no hang-up stays as it is.
func TestPlainCauseOfAServerThatHangsUp(t *testing.T) {
	const dial = `last connection error: connection error: desc = "transport: `
	for message, want := range map[string]string{
		`connection error: desc = "error reading server preface: EOF"`:                                                         "the server may expect TLS",
		`connection error: desc = "error reading server preface: read tcp 127.0.0.1:1->127.0.0.1:2: connection reset by peer"`: "the server may expect TLS",
		`connection error: desc = "error reading server preface: http2: frame too large"`:                                      "the server may expect TLS",
		dial + `authentication handshake failed: EOF"`:                                                                         "the server may speak plain text",
		dial + `authentication handshake failed: read tcp 127.0.0.1:1->127.0.0.1:2: read: connection reset by peer"`:           "the server may speak plain text",
		dial + `authentication handshake failed: write tcp 127.0.0.1:1->127.0.0.1:2: write: broken pipe"`:                      "the server may speak plain text",
		dial + `authentication handshake failed: context deadline exceeded"`:                                                   "",
		dial + `Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`:                                       "",
	} {
		got := plainCause(message)
		if want == "" && strings.Contains(got, "may") || !strings.Contains(got, want) || strings.Contains(got, "desc = ") {
			t.Errorf("%s: got %s, want %q in it", message, got, want)
		}
	}
}
