package leasectl

import "github.com/spf13/cobra"

func newLocksRelease(a *app) *cobra.Command {
	var o claimRepairOptions
	var force bool
	var nonce string
	own := newLocksOwnRelease(a)
	cmd := newClaimRepair(a, claimRepair{lockNoun, "release", "released"}, &o, func(*cobra.Command) error { return nil }, &cobra.Command{
		Use:   "release NAME --token N | --force",
		Short: "Give a lock back, or take it from its holder",
		Long: `Give a lock back, as its holder: --token and --nonce are what locks acquire printed.
Exit code 5 means that it was lost before.

With --force somebody else takes it from its holder and gives it to the first who
waits, or to nobody. The holder may still be running; it is told, and no write under
its lock is accepted any more. What it does elsewhere nobody can stop: look first
whether it is gone.`,
		Example: `  leasectl locks release deploy --token 918201 --nonce 5f1c...
  leasectl locks release deploy --force --reason "its host is gone"
  leasectl locks release deploy --force --token 918201 --yes   # only this claim`,
	})
	byForce := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		set := cmd.Flags().Changed
		switch {
		case force && nonce != "":
			return usagef("--force alone", "--force takes the lock from its holder: --nonce is the holder's")
		case force:
			return byForce(cmd, args)
		case !set("token"):
			return usagef("--token N as its holder, or --force", "%sonly the holder can give a lock back, with --token; taking it from him needs --force", verbPrefix(cmd))
		case set("dry-run") || set("reason"):
			return usagef("--force", "%s--dry-run and --reason are for --force", verbPrefix(cmd))
		}
		for _, flag := range []string{"token", "nonce"} {
			if err := own.Flags().Set(flag, cmd.Flags().Lookup(flag).Value.String()); err != nil {
				return err
			}
		}
		own.SetContext(cmd.Context())
		return own.RunE(own, args)
	}
	cmd.Flags().BoolVar(&force, "force", false, "take it, although its holder may still be running")
	cmd.Flags().StringVar(&nonce, "nonce", "", "the nonce of one's own claim, `X`")
	return cmd
}
