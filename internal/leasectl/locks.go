package leasectl

import "github.com/spf13/cobra"

func newLocks(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "locks",
		Short: "Look at locks, and take one from its holder",
		Long: `Look at the locks that are held or waited for, and take one from a holder that
does not give it back. To hold one while a command runs, see leasectl lock. NAME may
also be lock/NAME, as -o name prints it.`,
		GroupID: groupLook,
		Example: `  leasectl locks ls
  leasectl locks get deploy -o json
  leasectl locks release deploy --force --reason "its host is gone"`,
	}, takesBack(lockNoun.noun, newLocksLs(a), newLocksGet(a), newLocksRelease(a))...)
}
