package leasectl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/leasectl/execjob"
	"github.com/leasekit/leasekit/workqueue"
)

// The exit codes. Scripts depend on them; help_topics.go explains them to people.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2 // bad arguments, or a question that needs --yes
	exitNotFound    = 3
	exitAuth        = 4
	exitConflict    = 5 // revision, token or state moved
	exitUnreachable = 6 // or no answer in time
	exitPartly      = 7 // some items of a bulk operation failed
	exitDoctor      = 8 // errors remain
	exitInterrupted = 130
	exitNoReader    = 141 // as SIGPIPE ends a program

	// The command after -- cannot be run, as shells report it. lock and elect pass on every other code of their command
	// and add 121 (the lease was lost), 124 (not acquired in time) and 125 (leasectl failed).
	exitCannotExec = 126
	exitNoCommand  = 127
)

// failure is an error with an exit code and what to try next. Verbs use it where the code cannot be read off the
// cause, or where they know a better way out than the table does.
type failure struct {
	code int // 0: as the cause says
	err  error
	try  string // a command or a setting; empty: as the cause says
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// usagef returns an error of the caller's input: exit code 2.
func usagef(try, format string, args ...any) error {
	return &failure{code: exitUsage, err: fmt.Errorf(format, args...), try: try}
}

// situation is one line of the table that maps errors to exit codes.
type situation struct {
	is   func(error) bool
	code int
	try  string
}

// sentinel matches one error value, typed one error type, grpcCode a status of a server.
func sentinel(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

func typed[E error]() func(error) bool {
	return func(err error) bool {
		var target E
		return errors.As(err, &target)
	}
}

func grpcCode(code codes.Code) func(error) bool {
	return func(err error) bool {
		var e rpctypes.EtcdError
		if errors.As(err, &e) {
			return e.Code() == code
		}
		st := grpcStatus(err)
		return st != nil && st.Code() == code
	}
}

// grpcStatus returns the status that err wraps, or nil. status.FromError would put the wrapping into its message.
func grpcStatus(err error) *status.Status {
	var s interface{ GRPCStatus() *status.Status }
	if !errors.As(err, &s) {
		return nil
	}
	return s.GRPCStatus()
}

// etcdIs matches an error of the etcd server, whether the client has translated it or not.
func etcdIs(target error) func(error) bool {
	return func(err error) bool {
		if errors.Is(err, target) {
			return true
		}
		st := grpcStatus(err)
		return st != nil && errors.Is(rpctypes.Error(st.Err()), target)
	}
}

func commandNotFound(err error) bool {
	var look *execjob.LookError
	return errors.As(err, &look) && look.Code == exitNoCommand
}

const (
	tryAuth = "--user NAME with LEASECTL_PASSWORD or --password-file"
	tryWait = "check the cluster with etcdctl endpoint status, or raise --dial-timeout"
)

// libraryErrors are the situations of our own libraries: the first match wins, so the special stands before the general.
var libraryErrors = []situation{
	{commandNotFound, exitNoCommand, "give a program that is on PATH after --"},
	{typed[*execjob.LookError](), exitCannotExec, "chmod +x, or another program after --"},

	{sentinel(coord.ErrInvalid), exitUsage, ""}, // the error names the field and what would do
	{sentinel(workqueue.ErrNotFound), exitNotFound, "leasectl jobs ls"},
	{sentinel(workqueue.ErrExists), exitConflict, "another --id"},
	{sentinel(workqueue.ErrConflict), exitConflict, "leasectl jobs get QUEUE/ID, then the same command if it is still right"},
	{sentinel(workqueue.ErrNotApplicable), exitConflict, "leasectl jobs get QUEUE/ID"},
	{sentinel(workqueue.ErrCancelled), exitConflict, ""},
	{sentinel(coord.ErrFenced), exitConflict, ""},
	{sentinel(coord.ErrRefused), exitConflict, "look again, then the same command"},
	{sentinel(workqueue.ErrUndecodable), exitFailed, "leasectl doctor"},
	{sentinel(workqueue.ErrBacklogFull), exitFailed, "etcdctl compact and defrag, or more workers"},
	// Whatever the last error of the network was, it must not look as if nothing had happened.
	{sentinel(coord.ErrUnknown), exitUnreachable, "look whether it happened before you repeat it"},
	{sentinel(coord.ErrSessionLost), exitFailed, ""},
}

// etcdErrors are the situations of etcd, gRPC and the network, looked at after ours.
var etcdErrors = []situation{
	{etcdIs(rpctypes.ErrAuthFailed), exitAuth, "check --user and LEASECTL_PASSWORD or --password-file"},
	{etcdIs(rpctypes.ErrUserEmpty), exitAuth, tryAuth},
	{etcdIs(rpctypes.ErrInvalidAuthToken), exitAuth, "the same command again"},
	{etcdIs(rpctypes.ErrAuthOldRevision), exitAuth, "the same command again"},
	{etcdIs(rpctypes.ErrPermissionDenied), exitAuth, tryGrant},
	{etcdIs(rpctypes.ErrNoSpace), exitFailed, "etcdctl compact, defrag and alarm disarm, in this order"},
	{etcdIs(rpctypes.ErrRequestTooLarge), exitFailed, ""},
	{grpcCode(codes.PermissionDenied), exitAuth, tryGrant},
	{grpcCode(codes.Unauthenticated), exitAuth, tryAuth},
	{grpcCode(codes.Unavailable), exitUnreachable, tryWait},
	{grpcCode(codes.DeadlineExceeded), exitUnreachable, tryWait},
	{sentinel(context.DeadlineExceeded), exitUnreachable, tryWait},
	{sentinel(syscall.ECONNREFUSED), exitUnreachable, tryWait},
	{typed[*net.OpError](), exitUnreachable, tryWait},
}

// explain returns the exit code of any error and what to try next, which may be empty. What an outer failure says wins
// over an inner one, and both over the tables.
func explain(err error) (code int, try string) {
	if err == nil {
		return exitOK, ""
	}
	var f *failure
	for e := err; errors.As(e, &f); e = f.err {
		code = cmp.Or(code, f.code)
		try = cmp.Or(try, f.try)
	}
	causeCode, causeTry := explainCause(err)
	return cmp.Or(code, causeCode), cmp.Or(try, causeTry)
}

func explainCause(err error) (int, string) {
	for _, table := range [][]situation{libraryErrors, etcdErrors} {
		for _, s := range table {
			if s.is(err) {
				return s.code, s.try
			}
		}
	}
	return exitFailed, ""
}

// exitCode returns the exit code of any error, 0 for nil.
func exitCode(err error) int {
	code, _ := explain(err)
	return code
}

// The exit codes of a command that runs under a claim, beside its own.
const (
	exitLost      = 121
	exitNotInTime = 124
	exitOwn       = 125 // leasectl failed
)

// commandEnded is the end of a command whose exit code leasectl passes on, and says nothing about.
type commandEnded struct{ code int }

func (e *commandEnded) Error() string { return fmt.Sprintf("the command exited with %d", e.code) }

// tryGrant is the way out where nobody can tell what is missing.
const tryGrant = "leasectl auth can-i VERB QUEUE, which names what is missing, and leasectl auth roles, for who may grant it"
