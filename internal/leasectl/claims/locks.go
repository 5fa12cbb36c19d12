package claims

import (
	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
)

// NewLocks is leasectl locks.
func NewLocks(a *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "locks",
		Short: "Look at locks, hold one from a script, take one from its holder",
		Long: `Look at the locks that are held or waited for, hold one step by step from a script,
and take one from a holder that does not give it back. To hold one while a command
runs, see leasectl lock. NAME may also be lock/NAME, as -o name prints it.`,
		GroupID: cli.GroupLook,
		Example: `  leasectl locks ls
  leasectl locks get deploy -o json
  leasectl locks acquire deploy --session "$S" --wait 1m -o json   # leasectl help scripts
  leasectl locks release deploy --force --reason "its host is gone"`,
	}, cli.TakesBack(lockNoun.noun, newLocksLs(a), newLocksGet(a), newLocksAcquire(a), newLocksVerify(a), newLocksRelease(a))...)
}
