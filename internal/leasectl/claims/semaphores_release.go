package claims

import (
	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
)

func newSemaphoresRelease(a *cli.App) *cobra.Command {
	cmd := newClaimRelease(a, semaphoreNoun, &cobra.Command{
		Use:   "release SEMAPHORE --token N | NAME/NUMBER --force",
		Short: "Give a permit back, or take it from its holder",
		Long: `Give a permit of a semaphore back, as its holder: --token and --nonce are what
semaphores acquire printed, and tell which permit it is. Exit code 5 means that it was
lost before.

With --force somebody else takes the permit NAME/NUMBER from its holder and gives it to
the first who waits, or to nobody. The holder may still be running; it is told, and no
write under its permit is accepted any more. What it does elsewhere nobody can stop:
look first whether it is gone.`,
		Example: `  leasectl semaphores release gpu --token 918201 --nonce 5f1c...
  leasectl semaphores release gpu/2 --force --reason "its host is gone"
  leasectl semaphores release gpu/2 --force --token 918201 --yes   # only this claim`,
	})
	cmd.Args = cli.Takes("SEMAPHORE")
	return cmd
}
