package claims

import (
	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/escape"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/line"
)

func newElectionsTransfer(a *cli.App) *cobra.Command {
	var o claimRepairOptions
	cmd := newClaimRepair(a, claimRepair{electionNoun, "transfer", "transferred"}, &o, func(cmd *cobra.Command) error {
		if o.to == "" {
			return exit.Usagef("leasectl elections get "+escape.Shell(cmd.Flags().Arg(0))+" -o json", "%s--to is missing", cli.VerbPrefix(cmd))
		}
		return nil
	}, &cobra.Command{
		Use:   "transfer NAME --to ID",
		Short: "Make a candidate the leader",
		Long: `Make a candidate the leader, in one transaction: there is no moment without one.
The ID is a candidate's session, or an identity (campaign --as) that one candidate
has. The old leader may still be running; it is told, and no write under its term
is accepted any more.`,
		Example: `  leasectl elections transfer scheduler --to node-b
  leasectl elections transfer scheduler --to node-b.0d4fa1c2b3e45f60 --yes`,
	})
	cmd.Flags().StringVar(&o.to, "to", "", "the candidate, by session or `ID`")
	return cmd
}

// successor finds the candidate that --to names.
func successor(seen line.State, name, id string) (string, error) {
	sid, err := seen.Waiter(id)
	if err != nil {
		return "", &exit.Error{Err: err, Try: "leasectl elections get " + escape.Shell(name) + " -o json"}
	}
	return sid, nil
}
