package claims

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
)

func newSemaphoresGet(a *cli.App) *cobra.Command {
	var o cli.ListOptions
	cmd := &cobra.Command{
		Use:   "get SEMAPHORE",
		Short: "Show the permits of one semaphore, in JSON with all who wait",
		Long: `Show who holds the permits of a semaphore, and in JSON who waits for one, first in
line first. With NAME/NUMBER only that permit is shown. What is shown was confirmed by
a majority of etcd's members in this moment.`,
		Example: `  leasectl semaphores get gpu
  leasectl semaphores get gpu/0 -o json`,
		Args: cli.Takes("SEMAPHORE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return cli.RunList(cmd.Context(), a, o, cli.Lister[Item]{
				View:     semaphoreNoun.view(),
				Prefixes: semaphoreNoun.watched,
				Load: func(ctx context.Context, c *connect.Conn) ([]Item, error) {
					return loadPermits(ctx, a, c, args[0])
				},
			})
		},
	}
	o.AddFlags(cmd)
	return cmd
}
