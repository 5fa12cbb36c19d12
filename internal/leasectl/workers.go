package leasectl

import "github.com/spf13/cobra"

func newWorkers(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "workers",
		Short: "Look at the sessions that work, lock and lead",
		Long: `Look at the sessions: each process that works, locks or leads has one, and is alive
exactly as long as its session's key exists. Those that are gone show as long as
they still own jobs, which anybody may then take over.`,
		GroupID: groupLook,
		Example: `  leasectl workers ls
  leasectl workers describe w-7f31`,
		Aliases: []string{"worker", "w", "sessions"},
	}, newWorkersLs(a), newWorkersGet(a), newWorkersDescribe(a), newWorkersEvict(a))
}
