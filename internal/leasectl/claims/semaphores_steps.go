package claims

import (
	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

func newSemaphoresAcquire(a *cli.App) *cobra.Command {
	cmd := newClaimAcquire(a, semaphoreNoun, &cobra.Command{
		Use:   "acquire SEMAPHORE --permits N --session S",
		Short: "Acquire a permit of a semaphore for a session, from a script",
		Long: `Acquire a permit of a semaphore for a session, as locks acquire does a lock. --permits
is how many there are: all that use the name must agree on it. With --wait it stands in
line; else, and when that is over, the exit code is 124.`,
		Example: `  leasectl semaphores acquire gpu --permits 4 --session "$S" -o json
  leasectl semaphores acquire gpu --permits 4 --session "$S" --wait 1m -o json`,
	})
	cmd.Args = cli.Takes("SEMAPHORE")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !cmd.Flags().Changed("permits") {
			return exit.Usagef("--permits N, the same wherever the semaphore is used", "%s--permits is missing", cli.VerbPrefix(cmd))
		}
		return run(cmd, args)
	}
	return cmd
}

func newSemaphoresVerify(a *cli.App) *cobra.Command {
	cmd := newClaimStep(a, claimStep{semaphoreNoun, "held", (*coord.Hold).Verify}, &cobra.Command{
		Use:   "verify SEMAPHORE --token N",
		Short: "Prove that a permit is still held",
		Long: `Prove that a permit is still held under a token, in this moment: a majority of etcd's
members has said so, and the session was renewed. Exit code 5 means that it is not.
SEMAPHORE is its name, or NAME/NUMBER of the permit.`,
		Example: `  leasectl semaphores verify gpu --token 918201 --nonce 5f1c...`,
	})
	cmd.Args = cli.Takes("SEMAPHORE")
	return cmd
}
