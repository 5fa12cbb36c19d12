package leasectl

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/workqueue"
	"github.com/spf13/cobra"
)

var allStates = []workqueue.State{
	workqueue.StateReady, workqueue.StateScheduled, workqueue.StateRetry, workqueue.StateClaimed,
	workqueue.StateOrphan, workqueue.StateDone, workqueue.StateDead, workqueue.StateCancelled,
}

func newJobsLs(a *app) *cobra.Command {
	var states []string
	var kind string
	var o listOptions
	cmd := &cobra.Command{
		Use:   "ls [QUEUE]",
		Short: "List the jobs of a queue, or of all queues",
		Long: `List jobs: live ones in the order in which they will be claimed, then dead ones,
then those that are done or cancelled and still kept. A queue that nobody has
used is an empty list.`,
		Example: `  leasectl jobs ls
  leasectl jobs ls mail --state dead,retry
  leasectl jobs ls mail --state dead -o name | xargs -n 1 leasectl jobs requeue`,
		Aliases: []string{"list"},
		Args:    takes("[QUEUE]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			filter, err := jobFilter(states, kind)
			if err != nil {
				return err
			}
			return runList(cmd.Context(), a, o, lister[jobItem]{
				view: jobColumns(func(i jobItem) *jobItem { return &i }),
				load: func(ctx context.Context, c *connection) ([]jobItem, error) {
					return a.loadJobs(ctx, c, args, filter)
				},
				prefixes: func(keys coord.Keyspace) []string { return []string{keys.Queues(), keys.Sessions()} },
			})
		},
	}
	cmd.Flags().StringSliceVar(&states, "state", nil, "only jobs in `STATE`[,STATE...]: "+joinStates())
	cmd.Flags().StringVar(&kind, "kind", "", "only jobs of `KIND`")
	o.addFlags(cmd)
	return cmd
}

func joinStates() string {
	var names []string
	for _, s := range allStates {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

func jobFilter(states []string, kind string) (workqueue.Filter, error) {
	f := workqueue.Filter{Kind: kind}
	for _, name := range states {
		if !slices.Contains(allStates, workqueue.State(name)) {
			return f, usagef("leasectl help states", "--state %q is none of %s", name, joinStates())
		}
		f.States = append(f.States, workqueue.State(name))
	}
	return f, nil
}

func (a *app) loadJobs(ctx context.Context, c *connection, queues []string, f workqueue.Filter) (items []jobItem, err error) {
	if len(queues) == 0 {
		if queues, err = a.queues(ctx, c); err != nil {
			return nil, err
		}
	}
	for _, name := range queues {
		found, err := a.listJobs(ctx, c, name, f)
		if err != nil {
			return nil, err
		}
		items = append(items, found...)
	}
	return items, nil
}

func (a *app) queues(ctx context.Context, c *connection) ([]string, error) {
	names, err := workqueue.Queues(ctx, c.Client, c.root)
	if code := exitCode(err); code == exitAuth {
		return nil, &failure{err: err, try: "name the QUEUE that you may read"}
	}
	return names, err
}

// listJobs reads one queue whole before anything is printed, so that an error leaves no half list.
func (a *app) listJobs(ctx context.Context, c *connection, queue string, f workqueue.Filter) (items []jobItem, err error) {
	q, err := a.openQueue(ctx, c, queue, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = q.Close() }() // nothing was written
	for j, err := range q.List(ctx, f) {
		switch {
		case unreadable(err):
			a.notef("warning: %s", errorText(err))
		case err != nil:
			return nil, fmt.Errorf("list jobs: %w", err)
		default:
			items = append(items, itemOf(j))
		}
	}
	return items, nil
}
