package claims

import (
	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
)

func newLocksLs(a *cli.App) *cobra.Command {
	return newClaimsLs(a, lockNoun, &cobra.Command{
		Use:   "ls",
		Short: "List the locks that are held or waited for",
		Long: `List the locks that are held or waited for. A lock whose STATE is orphan has a
holder whose session is gone: the next one who wants it gets it.`,
		Example: `  leasectl locks ls
  leasectl locks ls -o json`,
	})
}
