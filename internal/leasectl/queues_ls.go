package leasectl

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/keyspace"
)

func newQueuesLs(a *app) *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
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
		Aliases: []string{"list"},
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runList(cmd.Context(), a, o, lister[queueItem]{
				view: queueView,
				load: func(ctx context.Context, c *connection) ([]queueItem, error) {
					items, _, err := readQueues(ctx, a, c)
					return items, err
				},
				prefixes: func(keys keyspace.Keyspace) []string { return []string{keys.Queues(), keys.Sessions()} },
			})
		},
	}
	o.addFlags(cmd)
	return cmd
}
