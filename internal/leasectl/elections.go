package leasectl

import "github.com/spf13/cobra"

func newElections(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "elections",
		Short: "Look at leaders and candidates, stand for election, move leadership",
		Long: `Look at who leads and who stands, run a command while leading, and move leadership
from outside.`,
		GroupID: groupLook,
		Example: `  leasectl elections ls
  leasectl elections observe scheduler
  leasectl elections campaign scheduler --as node-a -- ./scheduler
  leasectl elections transfer scheduler --to node-b --reason "node-a goes down"`,
		Aliases: []string{"election", "e"},
	}, newElectionsLs(a), newElectionsGet(a), newElectionsObserve(a), writes(newElectionsCampaign(a)), newElectionsResign(a), newElectionsTransfer(a))
}
