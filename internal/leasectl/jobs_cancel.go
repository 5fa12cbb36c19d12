package leasectl

import (
	"context"

	"github.com/leasekit/leasekit/workqueue"
	"github.com/spf13/cobra"
)

func newJobsCancel(a *app) *cobra.Command {
	return newRepair(a, repair{
		verb: "cancel",
		past: "cancelled",
		able: func(j *workqueue.Job) bool { return j.State.Live() },
		do: func(ctx context.Context, q *workqueue.Queue, id string, by workqueue.By) (*workqueue.Job, error) {
			return q.Cancel(ctx, id, by)
		},
	}, &cobra.Command{
		Use:   "cancel QUEUE/ID",
		Short: "End a job that waits or runs",
		Long: `End a job that is not over, whoever works it: a running owner is told to stop,
and its result is refused.`,
		Example: `  leasectl jobs cancel mail/welcome-7 --reason "sent by hand"
  leasectl jobs cancel mail/welcome-7 --revision 918201   # only if it has not changed since`,
	})
}
