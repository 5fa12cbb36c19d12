package jobs

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/workqueue"
)

func newJobsDelete(a *cli.App) *cobra.Command {
	var force bool
	shape := repairShape{bulk: true, traceless: true, bind: func(*cobra.Command, []string) (Repair, error) { return Deletion(force), nil }}
	cmd := newRepairOf(a, shape, &cobra.Command{
		Use:   "delete QUEUE/ID | --queue QUEUE --state STATE...",
		Short: "Take jobs away for good",
		Long: `Take a job away for good, or many: nothing of it is left, not even its log, so no
--reason is kept. To end a job and keep what is known of it, jobs cancel it.

The name has to be typed before a job that is live or dead goes. A claimed job is
left alone, unless --break-claim takes it from its owner, whose result is refused.`,
		Example: `  leasectl jobs delete mail/welcome-7
  leasectl jobs delete --queue mail --state dead
  leasectl jobs delete --queue mail --filter 'state:done ended:>1h' --yes`,
		Aliases: []string{"rm"},
	})
	cmd.Flags().BoolVar(&force, "break-claim", false, "take it from its owner, if it is claimed")
	return cli.Destroys(cmd)
}

// Deletion takes jobs away; claimed ones too with force.
func Deletion(force bool) Repair {
	return Repair{
		verb: "delete", past: "deleted", Breaks: force, bulk: true, hint: claimedHint("delete"),
		Able:   func(j *workqueue.Job) bool { return j.Owner == "" || force },
		severe: func(j *workqueue.Job) bool { return j.State == workqueue.StateDead || j.State.Live() },
		do: func(ctx context.Context, q *workqueue.Queue, id string, by workqueue.By) (*workqueue.Job, error) {
			return admin.Delete(ctx, q, id, by)
		},
	}
}
