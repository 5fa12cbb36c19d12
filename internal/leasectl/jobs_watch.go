package leasectl

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/workqueue"
)

func newJobsWatch(a *app) *cobra.Command {
	var s selection
	o := listOptions{watch: true}
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
		Args: takes("[QUEUE|QUEUE/ID]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || !strings.Contains(args[0], "/") {
				if err := s.parse(args); err != nil {
					return err
				}
				return listSelected(cmd.Context(), a, o, s)
			}
			if cmd.Flags().Changed("filter") || cmd.Flags().Changed("state") || cmd.Flags().Changed("kind") {
				return usagef("one of them", "QUEUE/ID names one job: --filter, --state and --kind select many")
			}
			ref, err := parseJobRef(args[0])
			if err != nil {
				return err
			}
			return watchJob(cmd.Context(), a, o, ref)
		},
	}
	s.addFlags(cmd)
	o.addStaticFlags(cmd)
	return cmd
}

// watchJob prints one job whenever it has changed, until it is over.
func watchJob(ctx context.Context, a *app, o listOptions, ref jobRef) error {
	p, err := a.watchPrinter(o)
	if err != nil {
		return err
	}
	if _, err := detailColumns.pick(p); err != nil {
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
		err = printRows(p, detailColumns, []jobDetail{d})
		p.noHeaders = true
		return err
	}
	return a.withQueue(ctx, ref.queue, func(c *connection, q *workqueue.Queue) error {
		j, err := awaitState(ctx, a, c, q, awaited{ref: ref, orphans: true, see: see})
		if err != nil {
			return err
		}
		return outcomeOf(j)
	})
}
