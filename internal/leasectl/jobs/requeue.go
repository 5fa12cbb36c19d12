package jobs

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/workqueue"
)

func newJobsRequeue(a *cli.App) *cobra.Command {
	return newRepair(a, Repair{
		verb: "requeue",
		past: "requeued",
		bulk: true, Spare: payloadGone,
		Able: func(j *workqueue.Job) bool { return !j.State.Live() },
		do: func(ctx context.Context, q *workqueue.Queue, id string, by workqueue.By) (*workqueue.Job, error) {
			return q.Requeue(ctx, id, by)
		},
	}, &cobra.Command{
		Use:   "requeue QUEUE/ID | --queue QUEUE --state STATE...",
		Short: "Bring back jobs that are dead, done or cancelled",
		Long: `Bring back a job that is over: its counters start anew, its log goes on, and it
stands behind the jobs that wait. A job that is done can come back only while
its payload is there: one above 1 KiB goes with the completion. Many jobs are
shown, counted and asked about first; what has moved by then is skipped.`,
		Example: `  leasectl jobs requeue mail/welcome-7 --reason "smtp is back"
  leasectl jobs requeue mail/welcome-7 --dry-run
  leasectl jobs requeue --queue mail --state cancelled`,
	})
}
