package jobs

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/workqueue"
)

func newJobsCancel(a *cli.App) *cobra.Command {
	return newRepair(a, Repair{
		verb: "cancel",
		past: "cancelled",
		bulk: true,
		Able: func(j *workqueue.Job) bool { return j.State.Live() },
		do: func(ctx context.Context, q *workqueue.Queue, id string, by workqueue.By) (*workqueue.Job, error) {
			return q.Cancel(ctx, id, by)
		},
	}, &cobra.Command{
		Use:   "cancel QUEUE/ID | --queue QUEUE --state STATE...",
		Short: "End jobs that wait or run",
		Long: `End a job that is not over, whoever works it: a running owner is told to stop,
and its result is refused. Many jobs are shown, counted and asked about first; what
has moved by then is skipped.`,
		Example: `  leasectl jobs cancel mail/welcome-7 --reason "sent by hand"
  leasectl jobs cancel mail/welcome-7 --revision 918201   # only if it has not changed since
  leasectl jobs cancel --queue mail --filter 'state:ready label.tenant:42 age:>1d'`,
	})
}
