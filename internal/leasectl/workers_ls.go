package leasectl

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/keyspace"
)

func newWorkersLs(a *app) *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the sessions with what they serve and own",
		Long: `List the sessions with what they serve and own. BUSY is jobs of concurrency; TTL what is
left of the lease and what was granted. etcd's leader counts that, and a new leader
begins anew, so that a dead worker lives on until its lease ends under one; TERM, with
-o wide, is the leader's term. STATE is live; unlisted: it owns jobs of a queue for
which it is not registered, since it drains or works from a script; or LOST: it is
gone, and what it owns are orphans.`,
		Example: `  leasectl workers ls
  leasectl workers ls -o wide
  leasectl workers ls -w`,
		Aliases: []string{"list"},
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runList(cmd.Context(), a, o, lister[workerItem]{
				view: workerView, load: func(ctx context.Context, c *connection) ([]workerItem, error) { return loadWorkers(ctx, a, c) }, prefixes: workerPrefixes,
			})
		},
	}
	o.addFlags(cmd)
	return cmd
}

func workerPrefixes(keys keyspace.Keyspace) []string { return []string{keys.Sessions(), keys.Queues()} }

func loadWorkers(ctx context.Context, a *app, c *connection) ([]workerItem, error) {
	queues, _, err := readQueuesSince(ctx, a, c, time.Time{})
	if err != nil {
		return nil, err
	}
	workers, err := readWorkers(ctx, a, c, queues)
	if err != nil {
		return nil, err
	}
	return workers, addLeases(ctx, c, workers)
}
