package claims

import (
	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
)

func newElectionsAcquire(a *cli.App) *cobra.Command {
	return newClaimAcquire(a, electionNoun, &cobra.Command{
		Use:   "acquire NAME --session S",
		Short: "Acquire a leadership for a session, from a script",
		Long: `Acquire the leadership of an election for a session, as locks acquire does a lock.
With --wait it stands in line; else, and when that is over, the exit code is 124.`,
		Example: `  leasectl elections acquire scheduler --session "$S" --wait 1m -o json`,
	})
}

func newElectionsVerify(a *cli.App) *cobra.Command {
	return newClaimStep(a, claimStep{electionNoun, "leads", (*coord.Hold).Verify}, &cobra.Command{
		Use:   "verify NAME --token N",
		Short: "Prove that a term goes on",
		Long: `Prove that a term goes on, in this moment: a majority of etcd's members has said so,
and the session was renewed. Exit code 5 means that it is over.`,
		Example: `  leasectl elections verify scheduler --token 918201 --nonce 5f1c...`,
	})
}

func newElectionsRelease(a *cli.App) *cobra.Command {
	return newClaimStep(a, claimStep{electionNoun, "released", (*coord.Hold).Release}, &cobra.Command{
		Use:   "release NAME --token N",
		Short: "End one's own term, as its leader",
		Long: `End one's own term: the first candidate leads, or nobody. To end another's, see
elections resign. Exit code 5 means that it was over.`,
		Example: `  leasectl elections release scheduler --token 918201 --nonce 5f1c...`,
	})
}
