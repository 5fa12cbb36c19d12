package leasectl

import "github.com/spf13/cobra"

func newLocksRelease(a *app) *cobra.Command {
	var o claimRepairOptions
	var force bool
	cmd := newClaimRepair(a, claimRepair{lockNoun, "release", "released"}, &o, func(cmd *cobra.Command) error {
		if !force {
			return usagef("the same with --force", "%sonly the holder can give a lock back; taking it from him needs --force", verbPrefix(cmd))
		}
		return nil
	}, &cobra.Command{
		Use:   "release NAME --force",
		Short: "Take a lock from its holder",
		Long: `Take a lock from its holder and give it to the first who waits, or to nobody. The
holder may still be running; it is told, and no write under its lock is accepted
any more. What it does elsewhere nobody can stop: look first whether it is gone.`,
		Example: `  leasectl locks release deploy --force --reason "its host is gone"
  leasectl locks release deploy --force --token 918201 --yes   # only this claim`,
	})
	cmd.Flags().BoolVar(&force, "force", false, "take it, although its holder may still be running")
	return cmd
}
