package workers

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/look"
)

func newWorkersLs(a *cli.App) *cobra.Command {
	return cli.NewList(a, &cobra.Command{
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
	}, cli.Lister[look.Worker]{
		View: look.WorkerView, Prefixes: workerPrefixes,
		Load: func(ctx context.Context, c *connect.Conn) ([]look.Worker, error) { return loadWorkers(ctx, a, c) },
	})
}

func workerPrefixes(keys keyspace.Keyspace) []string { return []string{keys.Sessions(), keys.Queues()} }

func loadWorkers(ctx context.Context, a *cli.App, c *connect.Conn) ([]look.Worker, error) {
	queues, _, err := look.ReadQueuesSince(ctx, a, c, time.Time{})
	if err != nil {
		return nil, err
	}
	workers, err := look.ReadWorkers(ctx, a, c, queues)
	if err != nil {
		return nil, err
	}
	return workers, look.AddLeases(ctx, c, workers)
}
