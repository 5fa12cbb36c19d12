package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/workqueue"
)

func newJobsResult(a *cli.App) *cobra.Command {
	var wait bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "result QUEUE/ID",
		Short: "Print the result of a job, byte for byte",
		Long: `Print the result of a job that is done, byte for byte and with nothing behind it, but
on a terminal without what that would obey; with -o json the job, as jobs get does.
--wait waits until the job is over.

Exit codes: 0 it is done, and the result, which may be empty, is printed; 1 it is
dead or cancelled; 3 there is no such job, or no longer; 5 it is not over; 6 the
--timeout is over.`,
		Example: `  leasectl jobs result thumbnails/cat-7 >cat.png
  leasectl jobs result mail/welcome-7 --wait --timeout 1m`,
		Args: cli.Takes("QUEUE/ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := cli.ParseJobRef(args[0])
			if err != nil {
				return err
			}
			if err := checkWait(cmd, wait, "timeout", timeout); err != nil {
				return err
			}
			format, err := a.Format(output.Table, output.JSON)
			if err != nil {
				return err
			}
			return a.WithQueue(cmd.Context(), ref.Queue, func(c *connect.Conn, q *workqueue.Queue) error {
				j, err := jobForResult(cmd.Context(), a, c, q, ref, wait, timeout)
				if err != nil {
					return err
				}
				return printResult(a, format, j)
			})
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the job is over")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "with --wait: wait at most `TIME` (default: for ever)")
	return cmd
}

// checkWait checks the flag that bounds a --wait.
func checkWait(cmd *cobra.Command, wait bool, flag string, timeout time.Duration) error {
	switch {
	case !cmd.Flags().Changed(flag):
		return nil
	case !wait:
		return exit.Usagef("--wait --"+flag+" "+timeout.String(), "--%s bounds --wait, which is missing", flag)
	case timeout <= 0:
		return exit.Usagef("leave it out to wait for ever", "--%s is %v: it must be positive", flag, timeout)
	}
	return nil
}

func jobForResult(ctx context.Context, a *cli.App, c *connect.Conn, q *workqueue.Queue, ref cli.JobRef, wait bool, timeout time.Duration) (*workqueue.Job, error) {
	if wait {
		return awaitState(ctx, a, c, q, awaited{ref: ref, timeout: timeout})
	}
	j, err := Get(ctx, a, q, ref)
	if err == nil && j.State.Live() {
		err = &exit.Error{Code: exit.Conflict, Err: fmt.Errorf("job %s is %s, and has no result yet", cli.TextOf(j), j.State), Try: "the same with --wait"}
	}
	return j, err
}

// printResult prints the result of a job that is over, or the job in JSON. The error tells that it came to none.
func printResult(a *cli.App, format string, j *workqueue.Job) error {
	switch {
	case format == output.JSON:
		if err := Print(a, format, j); err != nil {
			return err
		}
	case format == output.Name:
		if err := a.PrintLine(cli.NameOf(j)); err != nil {
			return err
		}
	case j.State == workqueue.StateDone:
		if err := output.PrintText(a.Out, string(j.Result)); err != nil {
			return err
		}
	}
	return outcomeOf(j)
}

// outcomeOf is nil for a job that is done.
func outcomeOf(j *workqueue.Job) error {
	if j.State == workqueue.StateDone {
		return nil
	}
	return &exit.Error{Code: exit.Failed, Err: fmt.Errorf("job %s is %s%s", cli.TextOf(j), j.State, output.Why(output.LastLine(j.Error))), Try: "leasectl jobs describe " + escape.Shell(cli.TextOf(j))}
}
