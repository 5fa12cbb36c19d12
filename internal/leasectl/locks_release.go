package leasectl

import "github.com/spf13/cobra"

func newLocksRelease(a *app) *cobra.Command {
	return newForcedRelease(a, lockNoun, &cobra.Command{
		Use:   "release NAME --force",
		Short: "Take a lock from its holder",
		Long: `Take a lock from its holder and give it to the first who waits, or to nobody. The
holder may still be running; it is told, and no write under its lock is accepted
any more. What it does elsewhere nobody can stop: look first whether it is gone.`,
		Example: `  leasectl locks release deploy --force --reason "its host is gone"
  leasectl locks release deploy --force --token 918201 --yes   # only this claim`,
	}, "NAME")
}

// newForcedRelease completes the command that takes a claim of that noun, named as arg says, from its holder.
func newForcedRelease(a *app, n claimNoun, cmd *cobra.Command, arg string) *cobra.Command {
	var o claimRepairOptions
	var force bool
	newClaimRepair(a, claimRepair{n, "release", "released"}, &o, func(cmd *cobra.Command) error {
		if !force {
			return usagef("the same with --force", "%sonly the holder can give a %s back; taking it from him needs --force", verbPrefix(cmd), n.noun)
		}
		return nil
	}, cmd)
	cmd.Args = takes(arg)
	cmd.Flags().BoolVar(&force, "force", false, "take it, although its holder may still be running")
	return cmd
}
