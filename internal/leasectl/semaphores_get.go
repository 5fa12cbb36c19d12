package leasectl

import (
	"context"

	"github.com/spf13/cobra"
)

func newSemaphoresGet(a *app) *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:   "get SEMAPHORE",
		Short: "Show the permits of one semaphore, in JSON with all who wait",
		Long: `Show who holds the permits of a semaphore, and in JSON who waits for one, first in
line first. With NAME/NUMBER only that permit is shown. What is shown was confirmed by
a majority of etcd's members in this moment.`,
		Example: `  leasectl semaphores get gpu
  leasectl semaphores get gpu/0 -o json`,
		Args: takes("SEMAPHORE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runList(cmd.Context(), a, o, lister[claimItem]{
				view:     semaphoreNoun.view(),
				prefixes: semaphoreNoun.watched,
				load: func(ctx context.Context, c *connection) ([]claimItem, error) {
					return loadPermits(ctx, a, c, args[0])
				},
			})
		},
	}
	o.addFlags(cmd)
	return cmd
}
