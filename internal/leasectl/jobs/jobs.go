// Package jobs has the verbs about jobs, one by one and many at a time.
package jobs

import (
	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
)

// New is leasectl jobs.
func New(a *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "jobs",
		Short: "Look at jobs, bring them back, cancel them",
		Long: `Look at the jobs of a queue and act on them. A job is named QUEUE/ID; the ID may
hold slashes; a slash in the queue's name is written %2F. See leasectl help states.`,
		GroupID: cli.GroupLook,
		Example: `  leasectl jobs ls mail
  leasectl jobs get mail/welcome-7 -o json
  leasectl jobs requeue mail/welcome-7 --reason "smtp is back"
  leasectl jobs cancel mail/welcome-7`,
		Aliases: []string{"job", "j"},
	},
		newJobsLs(a), newJobsGet(a), newJobsDescribe(a), newJobsHistory(a), newJobsWait(a), newJobsWatch(a), newJobsResult(a),
		newJobsRetry(a), newJobsRequeue(a), newJobsCancel(a), newJobsMove(a), newJobsEdit(a), newJobsDelete(a),
		newJobsClaim(a), newJobsProgress(a), newJobsCheckpoint(a), newJobsComplete(a), newJobsFail(a), newJobsRelease(a),
	)
}
