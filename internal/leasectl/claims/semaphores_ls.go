package claims

import (
	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
)

func newSemaphoresLs(a *cli.App) *cobra.Command {
	return newClaimsLs(a, semaphoreNoun, &cobra.Command{
		Use:   "ls",
		Short: "List the permits of semaphores that are held or waited for",
		Long: `List the permits of semaphores that are held or waited for, one in a line. WAITERS
wait for any permit of that name. A permit whose STATE is orphan has a holder whose
session is gone: the next one who wants it gets it.`,
		Example: `  leasectl semaphores ls
  leasectl semaphores ls -o json`,
	})
}
