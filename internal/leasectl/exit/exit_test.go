package exit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/leasectl/execjob"
	"github.com/leasekit/leasekit/workqueue"
)

func TestExplain(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("claim job a: %w", err) }
	_, lookErr := execjob.Look([]string{"no-such-command-here"})
	tests := []struct {
		err  error
		code int
		try  string
	}{
		{nil, 0, ""},
		{errors.New("odd"), Failed, ""},
		{Usagef("x", "bad"), Usage, "x"},
		{wrap(Usagef("x", "bad")), Usage, "x"},
		{&Error{Code: Conflict, Err: rpctypes.ErrPermissionDenied}, Conflict, TryGrant},
		{&Error{Try: "mine", Err: rpctypes.ErrPermissionDenied}, Auth, "mine"},
		{&Error{Try: "outer", Err: wrap(&Error{Code: NotFound, Try: "inner", Err: errors.New("gone")})}, NotFound, "outer"},
		{wrap(rpctypes.ErrAuthFailed), Auth, "check --user"},
		{wrap(rpctypes.ErrGRPCUserEmpty), Auth, tryAuth},
		{wrap(rpctypes.ErrGRPCPermissionDenied), Auth, TryGrant},
		{wrap(rpctypes.ErrNoSpace), Failed, "etcdctl compact"},
		{wrap(rpctypes.ErrTimeout), Unreachable, TryWait},
		{wrap(rpctypes.ErrNoLeader), Unreachable, TryWait},
		{wrap(status.Error(codes.Unavailable, "closing")), Unreachable, TryWait},
		{wrap(status.Error(codes.DeadlineExceeded, "late")), Unreachable, TryWait},
		{wrap(status.Error(codes.Unauthenticated, "who")), Auth, tryAuth},
		{wrap(context.DeadlineExceeded), Unreachable, TryWait},
		{wrap(syscall.ECONNREFUSED), Unreachable, TryWait},
		{&coord.InputError{Field: "queue", Value: "", Reason: "is empty"}, Usage, ""},
		{wrap(workqueue.ErrNotFound), NotFound, "leasectl jobs ls"},
		{wrap(workqueue.ErrExists), Conflict, "--id"},
		{wrap(workqueue.ErrConflict), Conflict, "leasectl jobs get"},
		{wrap(workqueue.ErrNotApplicable), Conflict, "leasectl jobs get"},
		{wrap(workqueue.ErrCancelled), Conflict, ""},
		{wrap(&coord.FencedError{Key: "k", Wanted: 1, Current: 2}), Conflict, ""},
		{wrap(coord.ErrRefused), Conflict, "look again"},
		{wrap(workqueue.ErrBacklogFull), Failed, "compact"},
		{fmt.Errorf("%w: %w", coord.ErrUnknown, rpctypes.ErrNoSpace), Unreachable, "look whether"},
		{wrap(coord.ErrHistoryRewound), Failed, ""},
		{lookErr, NoCommand, "PATH"},
		{&execjob.LookError{Name: "x", Code: 126, Err: syscall.EACCES}, CannotExec, "chmod"},
	}
	for _, tt := range tests {
		code, try := Explain(tt.err)
		if code != tt.code || !strings.Contains(try, tt.try) || tt.try == "" && try != "" {
			t.Errorf("%v: %d, %q; want %d, %q", tt.err, code, try, tt.code, tt.try)
		}
	}
}

func TestInterruptCode(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	if code, ok := SignalCode(ctx, context.Canceled); ok {
		t.Errorf("no signal, but exit code %d", code)
	}
	cancel(&SignalError{Sig: syscall.SIGINT})
	for _, err := range []error{context.Canceled, context.Cause(ctx), fmt.Errorf("get: %w", context.Canceled), status.Error(codes.Canceled, "x")} {
		if code, ok := SignalCode(ctx, err); code != Interrupted || !ok {
			t.Errorf("%v: exit code %d, %v; want %d", err, code, ok, Interrupted)
		}
	}
	if code, ok := SignalCode(ctx, Usagef("", "bad")); ok {
		t.Errorf("an error of its own became exit code %d", code)
	}
}
