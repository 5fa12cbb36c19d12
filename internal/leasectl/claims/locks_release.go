package claims

import (
	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
)

func newLocksRelease(a *cli.App) *cobra.Command {
	return newClaimRelease(a, lockNoun, &cobra.Command{
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
}
