// Package exit is how leasectl ends: exit codes, the errors that carry them, and signals.
package exit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"syscall"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/leasectl/execjob"
	"github.com/leasekit/leasekit/workqueue"
)

// The exit codes. Scripts depend on them; leasectl help exit-codes explains them to people.
const (
	OK          = 0
	Failed      = 1
	Usage       = 2 // bad arguments, or a question that needs --yes
	NotFound    = 3
	Auth        = 4
	Conflict    = 5 // revision, token or state moved
	Unreachable = 6 // or no answer in time
	Partly      = 7 // some items of a bulk operation failed
	Doctor      = 8 // errors remain
	Interrupted = 130
	NoReader    = 141 // as SIGPIPE ends a program

	// The command after -- cannot be run, as shells report it. lock and elect pass on every other code of their command
	// and add 121 (the lease was lost), 124 (not acquired in time) and 125 (leasectl failed).
	CannotExec = 126
	NoCommand  = 127
)

// Error is an error with an exit code and what to try next. Verbs use it where the code cannot be read off the
// cause, or where they know a better way out than the table does.
type Error struct {
	Code int // 0: as the cause says
	Err  error
	Try  string // a command or a setting; empty: as the cause says
}

func (f *Error) Error() string { return f.Err.Error() }
func (f *Error) Unwrap() error { return f.Err }

// Usagef returns an error of the caller's input: exit code 2.
func Usagef(try, format string, args ...any) error {
	return &Error{Code: Usage, Err: fmt.Errorf(format, args...), Try: try}
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

// EtcdIs matches an error of the etcd server, whether the client has translated it or not.
func EtcdIs(target error) func(error) bool {
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
	return errors.As(err, &look) && look.Code == NoCommand
}

const (
	tryAuth = "--user NAME with LEASECTL_PASSWORD or --password-file"
	TryWait = "check the cluster with etcdctl endpoint status, or raise --dial-timeout"
)

// libraryErrors are the situations of our own libraries: the first match wins, so the special stands before the general.
var libraryErrors = []situation{
	{commandNotFound, NoCommand, "give a program that is on PATH after --"},
	{typed[*execjob.LookError](), CannotExec, "chmod +x, or another program after --"},

	{sentinel(coord.ErrInvalid), Usage, ""}, // the error names the field and what would do
	{sentinel(workqueue.ErrNotFound), NotFound, "leasectl jobs ls"},
	{sentinel(workqueue.ErrExists), Conflict, "another --id"},
	{sentinel(workqueue.ErrConflict), Conflict, "leasectl jobs get QUEUE/ID, then the same command if it is still right"},
	{sentinel(workqueue.ErrNotApplicable), Conflict, "leasectl jobs get QUEUE/ID"},
	{sentinel(workqueue.ErrCancelled), Conflict, ""},
	{sentinel(coord.ErrFenced), Conflict, ""},
	{sentinel(coord.ErrRefused), Conflict, "look again, then the same command"},
	{sentinel(workqueue.ErrUndecodable), Failed, "leasectl doctor"},
	{sentinel(workqueue.ErrBacklogFull), Failed, "etcdctl compact and defrag, or more workers"},
	// Whatever the last error of the network was, it must not look as if nothing had happened.
	{sentinel(coord.ErrUnknown), Unreachable, "look whether it happened before you repeat it"},
	{sentinel(coord.ErrSessionLost), Failed, ""},
}

// etcdErrors are the situations of etcd, gRPC and the network, looked at after ours.
var etcdErrors = []situation{
	{EtcdIs(rpctypes.ErrAuthFailed), Auth, "check --user and LEASECTL_PASSWORD or --password-file"},
	{EtcdIs(rpctypes.ErrUserEmpty), Auth, tryAuth},
	{EtcdIs(rpctypes.ErrInvalidAuthToken), Auth, "the same command again"},
	{EtcdIs(rpctypes.ErrAuthOldRevision), Auth, "the same command again"},
	{EtcdIs(rpctypes.ErrPermissionDenied), Auth, TryGrant},
	{EtcdIs(rpctypes.ErrNoSpace), Failed, "etcdctl compact, defrag and alarm disarm, in this order"},
	{EtcdIs(rpctypes.ErrRequestTooLarge), Failed, ""},
	{grpcCode(codes.PermissionDenied), Auth, TryGrant},
	{grpcCode(codes.Unauthenticated), Auth, tryAuth},
	{grpcCode(codes.Unavailable), Unreachable, TryWait},
	{grpcCode(codes.DeadlineExceeded), Unreachable, TryWait},
	{sentinel(context.DeadlineExceeded), Unreachable, TryWait},
	{sentinel(syscall.ECONNREFUSED), Unreachable, TryWait},
	{typed[*net.OpError](), Unreachable, TryWait},
}

// Explain returns the exit code of any error and what to try next, which may be empty. What an outer failure says wins
// over an inner one, and both over the tables.
func Explain(err error) (code int, try string) {
	if err == nil {
		return OK, ""
	}
	var f *Error
	for e := err; errors.As(e, &f); e = f.Err {
		code = cmp.Or(code, f.Code)
		try = cmp.Or(try, f.Try)
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
	return Failed, ""
}

// Code returns the exit code of any error, 0 for nil.
func Code(err error) int {
	code, _ := Explain(err)
	return code
}

// The exit codes of a command that runs under a claim, beside its own.
const (
	Lost      = 121
	NotInTime = 124
	Own       = 125 // leasectl failed
)

// Ended is the end of a command whose exit code leasectl passes on, and says nothing about.
type Ended struct{ Code int }

func (e *Ended) Error() string { return fmt.Sprintf("the command exited with %d", e.Code) }

// TryGrant is the way out where nobody can tell what is missing.
const TryGrant = "leasectl auth can-i VERB QUEUE, which names what is missing, and leasectl auth roles, for who may grant it"

// grpcPrefix is what gRPC puts before the message of a server; it tells a user nothing that the message does not.
var grpcPrefix = regexp.MustCompile(`rpc error: code = \w+ desc = `)

// Text is err in one line, in words that mean something outside of the program, and with nothing in it that a
// terminal obeys: errors name keys and texts that anybody may have written.
func Text(err error) string {
	text := grpcPrefix.ReplaceAllString(err.Error(), "")
	text = strings.ReplaceAll(text, "context deadline exceeded", "no answer in time")
	text = strings.ReplaceAll(text, "context canceled", "stopped")
	return escape.Text(strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; "))
}
