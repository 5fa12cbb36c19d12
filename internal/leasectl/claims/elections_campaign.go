package claims

import (
	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
)

func newElectionsCampaign(a *cli.App) *cobra.Command {
	o := underOptions{claimNoun: electionNoun}
	cmd := newUnder(a, &o, &cobra.Command{
		Use:   "campaign NAME [flags] -- CMD [ARG...]",
		Short: "Stand for election, and run a command while leading",
		Long: `Stand for election, in line, and run a command while leading, as leasectl lock does
for a lock. When the command ends, so does the term, and the exit code is that of
the command; when leadership is lost, or moved by resign or transfer, the command
is stopped and the exit code is 121. Run it in a loop to stand again.`,
		Example: `  leasectl elections campaign scheduler --as node-a -- ./scheduler
  while true; do leasectl elections campaign scheduler -- ./scheduler; done`,
	})
	return cmd
}
