package claims

import (
	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
)

func newElectionsGet(a *cli.App) *cobra.Command {
	return newClaimsGet(a, electionNoun, &cobra.Command{
		Use:   "get NAME",
		Short: "Show one election, in JSON with its candidates",
		Long: `Show who leads, and in JSON who stands, first in line first. What is shown was
confirmed by a majority of etcd's members in this moment.`,
		Example: `  leasectl elections get scheduler
  leasectl elections get scheduler -o json`,
	})
}
