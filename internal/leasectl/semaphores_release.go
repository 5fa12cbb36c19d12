package leasectl

import "github.com/spf13/cobra"

func newSemaphoresRelease(a *app) *cobra.Command {
	var o claimRepairOptions
	var force bool
	cmd := newClaimRepair(a, claimRepair{semaphoreNoun, "release", "released"}, &o, func(cmd *cobra.Command) error {
		if !force {
			return usagef("the same with --force", "%sonly the holder can give a semaphore back; taking it from him needs --force", verbPrefix(cmd))
		}
		return nil
	}, &cobra.Command{
		Use:   "release NAME/NUMBER --force",
		Short: "Take a permit from its holder",
		Long: `Take a permit of a semaphore from its holder and give it to the first who waits, or
to nobody. The holder may still be running; it is told, and no write under its permit
is accepted any more. What it does elsewhere nobody can stop: look first whether it
is gone.`,
		Example: `  leasectl semaphores release gpu/2 --force --reason "its host is gone"
  leasectl semaphores release gpu/2 --force --token 918201 --yes   # only this claim`,
	})
	cmd.Args = takes("NAME/NUMBER")
	cmd.Flags().BoolVar(&force, "force", false, "take it, although its holder may still be running")
	return cmd
}
