package queues

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/look"
	"github.com/leasekit/leasekit/internal/leasectl/output"
)

func newQueuesGet(a *cli.App) *cobra.Command {
	return newQueueShow(a, &cobra.Command{
		Use:   "get QUEUE",
		Short: "Show one queue with what is in it",
		Long: `Show one queue with what is in it. What the columns mean is told by leasectl queues
ls --help. A queue is its keys: one without jobs, config and workers is not found.`,
		Example: `  leasectl queues get mail
  leasectl queues get mail -o json`,
	})
}

func newQueuesStats(a *cli.App) *cobra.Command {
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
		if a.Settings.Output == "" || a.Settings.Output == output.Table {
			a.Settings.Output = output.Wide
		}
		return run(cmd, args)
	}
	return cmd
}

// newQueueShow completes a verb that prints one queue.
func newQueueShow(a *cli.App, cmd *cobra.Command) *cobra.Command {
	var o cli.ListOptions
	cmd.Args = cli.Takes("QUEUE")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := keyspace.ValidateName("queue", args[0]); err != nil {
			return err
		}
		return cli.RunItem(cmd.Context(), a, o, cli.Lister[look.Queue]{
			View: look.QueueView,
			Load: func(ctx context.Context, c *connect.Conn) ([]look.Queue, error) {
				item, err := readKnownQueue(ctx, a, c, args[0])
				return []look.Queue{item}, err
			},
			Prefixes: func(keys keyspace.Keyspace) []string {
				return []string{keys.Queue(args[0]).Prefix(), keys.Sessions()}
			},
		})
	}
	o.AddFlags(cmd)
	return cmd
}

// readKnownQueue reads a queue that must be there.
func readKnownQueue(ctx context.Context, a *cli.App, c *connect.Conn, name string) (look.Queue, error) {
	item, err := look.ReadQueue(ctx, a, c, name)
	if err != nil {
		return item, err
	}
	live := item.Ready + item.Scheduled + item.Retry + item.Claimed + item.Orphan + item.Unreadable
	if live+item.Done+item.Dead+item.Workers == 0 && item.Revision == "0" {
		return item, a.NoQueue(ctx, c, name)
	}
	return item, nil
}
