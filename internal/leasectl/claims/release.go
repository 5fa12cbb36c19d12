package claims

import (
	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

// newClaimRelease completes the verb by which the holder gives a claim back, by its token, or somebody takes it from him
// by force.
func newClaimRelease(a *cli.App, n claimNoun, cmd *cobra.Command) *cobra.Command {
	var o claimRepairOptions
	var force bool
	var nonce string
	own := newClaimStep(a, claimStep{n, "released", (*coord.Hold).Release}, &cobra.Command{})
	newClaimRepair(a, claimRepair{n, "release", "released"}, &o, func(*cobra.Command) error { return nil }, cmd)
	byForce := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		set := cmd.Flags().Changed
		switch {
		case force && nonce != "":
			return exit.Usagef("--force alone", "--force takes it from its holder: --nonce is the holder's")
		case force:
			return byForce(cmd, args)
		case !set("token"):
			return exit.Usagef("--token N as its holder, or --force", "%sonly the holder can give a %s back, with --token; taking it from him needs --force", cli.VerbPrefix(cmd), n.noun)
		case set("dry-run") || set("reason"):
			return exit.Usagef("--force", "%s--dry-run and --reason are for --force", cli.VerbPrefix(cmd))
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
