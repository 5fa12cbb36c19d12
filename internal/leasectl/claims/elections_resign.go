package claims

import (
	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
)

func newElectionsResign(a *cli.App) *cobra.Command {
	return newClaimRepair(a, claimRepair{electionNoun, "resign", "resigned"}, &claimRepairOptions{}, func(*cobra.Command) error { return nil },
		&cobra.Command{
			Use:   "resign NAME",
			Short: "End the term of whoever leads",
			Long: `End the term of whoever leads: the first candidate leads, or nobody. The leader may
still be running; it is told, and no write under its term is accepted any more. It
does not wait for the leader's work to end, as the leader's own resigning does.`,
			Example: `  leasectl elections resign scheduler --reason "it is stuck"
  leasectl elections resign scheduler --dry-run`,
		})
}
