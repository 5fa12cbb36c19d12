package jobs

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/filter"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/workqueue"
)

func newJobsWatch(a *cli.App) *cobra.Command {
	var s filter.Selection
	o := cli.ListOptions{Watch: true}
	cmd := &cobra.Command{
		Use:   "watch [QUEUE|QUEUE/ID]",
		Short: "Print jobs as they are, and again whenever they change",
		Long: `Print jobs as they are, and each one again whenever something of it changes: all
jobs, those of a queue, or those that the flags select, until stopped. It is jobs ls
-w. A job that the flags select no longer is not printed any more.

With QUEUE/ID it prints one job, in each of its states, and ends when it is over.
Exit codes are then: 0 it is done; 1 it is dead or cancelled; 3 there is no such job,
or no longer. leasectl events tells what happens instead of what is.`,
		Example: `  leasectl jobs watch mail --state dead
  leasectl jobs watch --filter 'kind:send* -state:done' -o jsonl
  leasectl jobs watch mail/welcome-7`,
		Args: cli.Takes("[QUEUE|QUEUE/ID]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || !strings.Contains(args[0], "/") {
				if err := s.Parse(args); err != nil {
					return err
				}
				return listSelected(cmd.Context(), a, o, s)
			}
			if cmd.Flags().Changed("filter") || cmd.Flags().Changed("state") || cmd.Flags().Changed("kind") {
				return exit.Usagef("one of them", "QUEUE/ID names one job: --filter, --state and --kind select many")
			}
			ref, err := cli.ParseJobRef(args[0])
			if err != nil {
				return err
			}
			return watchJob(cmd.Context(), a, o, ref)
		},
	}
	s.AddFlags(cmd)
	o.AddStaticFlags(cmd)
	return cmd
}

// watchJob prints one job whenever it has changed, until it is over.
func watchJob(ctx context.Context, a *cli.App, o cli.ListOptions, ref cli.JobRef) error {
	p, err := a.WatchPrinter(o)
	if err != nil {
		return err
	}
	if _, err := detailColumns.Pick(p); err != nil {
		return err
	}
	shown := ""
	see := func(j *workqueue.Job) error {
		d := detailOf(j)
		b, err := json.Marshal(d)
		if err != nil || string(b) == shown {
			return err
		}
		shown = string(b)
		err = output.PrintRows(p, detailColumns, []jobDetail{d})
		p.NoHeaders = true
		return err
	}
	return a.WithQueue(ctx, ref.Queue, func(c *connect.Conn, q *workqueue.Queue) error {
		j, err := awaitState(ctx, a, c, q, awaited{ref: ref, orphans: true, see: see})
		if err != nil {
			return err
		}
		return outcomeOf(j)
	})
}
