package leasectl

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/keyspace"
)

func newQueuesGet(a *app) *cobra.Command {
	return newQueueShow(a, &cobra.Command{
		Use:   "get QUEUE",
		Short: "Show one queue with what is in it",
		Long: `Show one queue with what is in it. What the columns mean is told by leasectl queues
ls --help. A queue is its keys: one without jobs, config and workers is not found.`,
		Example: `  leasectl queues get mail
  leasectl queues get mail -o json`,
	})
}

func newQueuesStats(a *app) *cobra.Command {
	cmd := newQueueShow(a, &cobra.Command{
		Use:   "stats QUEUE",
		Short: "Show all numbers of one queue",
		Long: `Show all numbers of one queue: queues get, with every column. With -w it goes on
and prints a line whenever one of them has changed.`,
		Example: `  leasectl queues stats mail
  leasectl queues stats mail -w --columns READY,CLAIMED,RATE/s
  leasectl queues stats mail -o json | jq .recent.done_per_second`,
	})
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if a.settings.output == "" || a.settings.output == formatTable {
			a.settings.output = formatWide
		}
		return run(cmd, args)
	}
	return cmd
}

// newQueueShow completes a verb that prints one queue.
func newQueueShow(a *app, cmd *cobra.Command) *cobra.Command {
	var o listOptions
	cmd.Args = takes("QUEUE")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := keyspace.ValidateName("queue", args[0]); err != nil {
			return err
		}
		return runItem(cmd.Context(), a, o, lister[queueItem]{
			view: queueView,
			load: func(ctx context.Context, c *connection) ([]queueItem, error) {
				item, err := readKnownQueue(ctx, a, c, args[0])
				return []queueItem{item}, err
			},
			prefixes: func(keys keyspace.Keyspace) []string {
				return []string{keys.Queue(args[0]).Prefix(), keys.Sessions()}
			},
		})
	}
	o.addFlags(cmd)
	return cmd
}

// readKnownQueue reads a queue that must be there.
func readKnownQueue(ctx context.Context, a *app, c *connection, name string) (queueItem, error) {
	item, err := readQueue(ctx, a, c, name)
	if err != nil {
		return item, err
	}
	live := item.Ready + item.Scheduled + item.Retry + item.Claimed + item.Orphan + item.Unreadable
	if live+item.Done+item.Dead+item.Workers == 0 && item.Revision == "0" {
		return item, a.noQueue(ctx, c, name)
	}
	return item, nil
}
