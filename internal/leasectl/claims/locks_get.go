package claims

import (
	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
)

func newLocksGet(a *cli.App) *cobra.Command {
	return newClaimsGet(a, lockNoun, &cobra.Command{
		Use:   "get NAME",
		Short: "Show one lock, in JSON with all who wait for it",
		Long: `Show who holds a lock, and in JSON who waits for it, first in line first. What is
shown was confirmed by a majority of etcd's members in this moment.`,
		Example: `  leasectl locks get deploy
  leasectl locks get deploy -o json`,
	})
}
