package leasectl

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
		{errors.New("odd"), exitFailed, ""},
		{usagef("x", "bad"), exitUsage, "x"},
		{wrap(usagef("x", "bad")), exitUsage, "x"},
		{&failure{code: exitConflict, err: rpctypes.ErrPermissionDenied}, exitConflict, tryGrant},
		{&failure{try: "mine", err: rpctypes.ErrPermissionDenied}, exitAuth, "mine"},
		{&failure{try: "outer", err: wrap(&failure{code: exitNotFound, try: "inner", err: errors.New("gone")})}, exitNotFound, "outer"},
		{wrap(rpctypes.ErrAuthFailed), exitAuth, "check --user"},
		{wrap(rpctypes.ErrGRPCUserEmpty), exitAuth, tryAuth},
		{wrap(rpctypes.ErrGRPCPermissionDenied), exitAuth, tryGrant},
		{wrap(rpctypes.ErrNoSpace), exitFailed, "etcdctl compact"},
		{wrap(rpctypes.ErrTimeout), exitUnreachable, tryWait},
		{wrap(rpctypes.ErrNoLeader), exitUnreachable, tryWait},
		{wrap(status.Error(codes.Unavailable, "closing")), exitUnreachable, tryWait},
		{wrap(status.Error(codes.DeadlineExceeded, "late")), exitUnreachable, tryWait},
		{wrap(status.Error(codes.Unauthenticated, "who")), exitAuth, tryAuth},
		{wrap(context.DeadlineExceeded), exitUnreachable, tryWait},
		{wrap(syscall.ECONNREFUSED), exitUnreachable, tryWait},
		{&coord.InputError{Field: "queue", Value: "", Reason: "is empty"}, exitUsage, ""},
		{wrap(workqueue.ErrNotFound), exitNotFound, "leasectl jobs ls"},
		{wrap(workqueue.ErrExists), exitConflict, "--id"},
		{wrap(workqueue.ErrConflict), exitConflict, "leasectl jobs get"},
		{wrap(workqueue.ErrNotApplicable), exitConflict, "leasectl jobs get"},
		{wrap(workqueue.ErrCancelled), exitConflict, ""},
		{wrap(&coord.FencedError{Key: "k", Wanted: 1, Current: 2}), exitConflict, ""},
		{wrap(coord.ErrRefused), exitConflict, "look again"},
		{wrap(workqueue.ErrBacklogFull), exitFailed, "compact"},
		{fmt.Errorf("%w: %w", coord.ErrUnknown, rpctypes.ErrNoSpace), exitUnreachable, "look whether"},
		{wrap(coord.ErrHistoryRewound), exitFailed, ""},
		{lookErr, exitNoCommand, "PATH"},
		{&execjob.LookError{Name: "x", Code: 126, Err: syscall.EACCES}, exitCannotExec, "chmod"},
	}
	for _, tt := range tests {
		code, try := explain(tt.err)
		if code != tt.code || !strings.Contains(try, tt.try) || tt.try == "" && try != "" {
			t.Errorf("%v: %d, %q; want %d, %q", tt.err, code, try, tt.code, tt.try)
		}
	}
}

func TestInterruptCode(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	if code, ok := interruptCode(ctx, context.Canceled); ok {
		t.Errorf("no signal, but exit code %d", code)
	}
	cancel(&interruptError{sig: syscall.SIGINT})
	for _, err := range []error{context.Canceled, context.Cause(ctx), fmt.Errorf("get: %w", context.Canceled), status.Error(codes.Canceled, "x")} {
		if code, ok := interruptCode(ctx, err); code != exitInterrupted || !ok {
			t.Errorf("%v: exit code %d, %v; want %d", err, code, ok, exitInterrupted)
		}
	}
	if code, ok := interruptCode(ctx, usagef("", "bad")); ok {
		t.Errorf("an error of its own became exit code %d", code)
	}
}
