package queues

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/look"
)

func newQueuesLs(a *cli.App) *cobra.Command {
	return cli.NewList(a, &cobra.Command{
		Use:   "ls",
		Short: "List the queues with what is in them",
		Long: `List the queues under the root. CLAIMED counts orphans too. OLDEST is the age of
the oldest ready job. RATE/s and P95-RUN are of the jobs that were done in the last
5 minutes, as far as done jobs are kept (an hour, and 10,000 for each process, unless
leasectl queues set says otherwise).
WORKERS are the sessions that serve the queue. A queue that nobody has used does not
show.`,
		Example: `  leasectl queues ls
  leasectl queues ls -o wide
  leasectl queues ls -o json`,
	}, cli.Lister[look.Queue]{
		View: look.QueueView,
		Load: func(ctx context.Context, c *connect.Conn) ([]look.Queue, error) {
			items, _, err := look.ReadQueues(ctx, a, c)
			return items, err
		},
		Prefixes: func(keys keyspace.Keyspace) []string { return []string{keys.Queues(), keys.Sessions()} },
	})
}
