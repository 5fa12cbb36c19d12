// Package leasectl is the command line: one file per verb, and what all verbs share.
//
// # The shape of a verb
//
// A verb is a function newX(*app) *cobra.Command in x.go, listed in root.go. It has a Short, an Example and a group;
// its RunE gets arguments that are already counted, connects when it needs etcd (app.connect), calls a library, and
// prints through output.go. It returns errors and prints none: Main does that, in one line, with the exit code.
//
// # What all verbs promise
//
//   - data on stdout, everything else on stderr;
//   - the exit codes of exit.go;
//   - an error names what failed, why, and what to try next, and comes within the dial timeout;
//   - SIGHUP, SIGINT, SIGQUIT and SIGTERM cancel the command's context; a verb that drains first reads app.aborted for
//     the second one.
package leasectl

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/execjob"
)

// Main runs one invocation and returns its exit code. args are without the program's name. It blocks until the verb has
// ended and everything that it started is gone. A process that leasectl started to guard a command does that instead.
func Main(args []string, in io.Reader, out, errOut io.Writer) int {
	if execjob.IsGuard() {
		return execjob.Guard()
	}
	ctx, signals := watchSignals(context.Background())
	defer signals.stop()
	a := &app{in: in, out: out, err: errOut, getenv: os.Getenv, aborted: signals.aborted}
	return run(ctx, a, newRoot(a, verbs(a)), args)
}

// run executes a command tree and reports its error, if any.
func run(ctx context.Context, a *app, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	err := a.finishShaping(root.ExecuteContext(ctx))
	if err == nil {
		return exitOK
	}
	var ended *commandEnded
	if errors.As(err, &ended) {
		return ended.code // it has said itself what there was to say
	}
	if code, ok := interruptCode(ctx, err); ok {
		a.printError(interrupted(ctx))
		return code
	}
	a.printError(err)
	return exitCode(err)
}
