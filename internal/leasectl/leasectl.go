// Package leasectl is the command line: a package for each noun, below, and the root command over them.
//
// # The shape of a verb
//
// A verb is a function newX(*cli.App) *cobra.Command in x.go of its noun, whose group is listed in root.go. It has a Short,
// an Example and a group; its RunE gets arguments that are already counted, connects when it needs etcd (App.WithEtcd),
// calls a library, and prints through package output. It returns errors and prints none: Main does that, in one line, with
// the exit code.
//
// # What all verbs promise
//
//   - data on stdout, everything else on stderr;
//   - the exit codes of package exit;
//   - an error names what failed, why, and what to try next, and comes within the dial timeout;
//   - SIGHUP, SIGINT, SIGQUIT and SIGTERM cancel the command's context; a verb that drains first reads App.Aborted for
//     the second one.
package leasectl

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/execjob"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

// Main runs one invocation and returns its exit code. args are without the program's name. It blocks until the verb has
// ended and everything that it started is gone. A process that leasectl started to guard a command does that instead.
func Main(args []string, in io.Reader, out, errOut io.Writer) int {
	if execjob.IsGuard() {
		return execjob.Guard()
	}
	ctx, signals := exit.WatchSignals(context.Background())
	defer signals.Stop()
	a := &cli.App{In: in, Out: out, Err: errOut, Getenv: os.Getenv, Aborted: signals.Aborted}
	return run(ctx, a, newRoot(a, verbs(a)), args)
}

// run executes a command tree and reports its error, if any.
func run(ctx context.Context, a *cli.App, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	err := a.FinishShaping(root.ExecuteContext(ctx))
	if err == nil {
		return exit.OK
	}
	var ended *exit.Ended
	if errors.As(err, &ended) {
		return ended.Code // it has said itself what there was to say
	}
	if code, ok := exit.SignalCode(ctx, err); ok {
		a.PrintError(exit.Signal(ctx))
		return code
	}
	a.PrintError(err)
	return exit.Code(err)
}
