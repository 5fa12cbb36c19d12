package claims

import (
	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
)

func newLocksAcquire(a *cli.App) *cobra.Command {
	return newClaimAcquire(a, lockNoun, &cobra.Command{
		Use:   "acquire NAME --session S",
		Short: "Acquire a lock for a session, from a script",
		Long: `Acquire a lock for a session, and print what proves it: its token and nonce, to locks
verify and release, and its key, for a guarded write with etcdctl. It is held as long
as the session is renewed, or until it is released. With --wait it waits in line; else,
and when that is over, the exit code is 124. 5 means that the session is gone.`,
		Example: `  leasectl locks acquire deploy --session "$S" -o json
  leasectl locks acquire deploy --session "$S" --wait 1m -o json >lock.json`,
	})
}

func newLocksVerify(a *cli.App) *cobra.Command {
	return newClaimStep(a, claimStep{lockNoun, "held", (*coord.Hold).Verify}, &cobra.Command{
		Use:   "verify NAME --token N",
		Short: "Prove that a lock is still held",
		Long: `Prove that a lock is still held under a token, in this moment: a majority of etcd's
members has said so, and the session was renewed. Exit code 5 means that it is not.`,
		Example: `  leasectl locks verify deploy --token 918201 --nonce 5f1c...`,
	})
}
