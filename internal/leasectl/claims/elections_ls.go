package claims

import (
	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
)

func newElectionsLs(a *cli.App) *cobra.Command {
	return newClaimsLs(a, electionNoun, &cobra.Command{
		Use:   "ls",
		Short: "List the elections that have a leader or candidates",
		Long: `List the elections that have a leader or candidates. An election whose STATE is
orphan has a leader whose session is gone: the next candidate leads.`,
		Example: `  leasectl elections ls
  leasectl elections ls -o json`,
	})
}
