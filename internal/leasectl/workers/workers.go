// Package workers has the verbs about workers.
package workers

import (
	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
)

// New is leasectl workers.
func New(a *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "workers",
		Short: "Look at the sessions that work, lock and lead",
		Long: `Look at the sessions: each process that works, locks or leads has one, and is alive
exactly as long as its session's key exists. Those that are gone show as long as
they still own jobs, which anybody may then take over.`,
		GroupID: cli.GroupLook,
		Example: `  leasectl workers ls
  leasectl workers describe w-7f31`,
		Aliases: []string{"worker", "w", "sessions"},
	}, newWorkersLs(a), newWorkersGet(a), newWorkersDescribe(a), newWorkersEvict(a))
}
