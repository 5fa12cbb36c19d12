package claims

import (
	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
)

// NewElections is leasectl elections.
func NewElections(a *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "elections",
		Short: "Look at leaders and candidates, stand for election, move leadership",
		Long: `Look at who leads and who stands, run a command while leading, and move leadership
from outside. All but campaign also take election/NAME, as -o name prints it.`,
		GroupID: cli.GroupLook,
		Example: `  leasectl elections ls
  leasectl elections observe scheduler
  leasectl elections campaign scheduler --as node-a -- ./scheduler
  leasectl elections transfer scheduler --to node-b --reason "node-a goes down"`,
		Aliases: []string{"election", "e"},
		// Not campaign: what a name excludes must not hang on who reads it how.
	}, append(cli.TakesBack(electionNoun.noun, newElectionsLs(a), newElectionsGet(a), newElectionsObserve(a), newElectionsResign(a), newElectionsTransfer(a),
		newElectionsAcquire(a), newElectionsVerify(a), newElectionsRelease(a)),
		cli.Writes(newElectionsCampaign(a)))...)
}
