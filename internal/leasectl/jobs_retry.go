package leasectl

import (
	"context"
	"time"

	"github.com/leasekit/leasekit/workqueue"
	"github.com/spf13/cobra"
)

// retryOfJobs tries jobs again.
var retryOfJobs = repair{
	verb:  "retry",
	past:  "retried",
	bulk:  true,
	spare: payloadGone,
	able:  func(j *workqueue.Job) bool { return j.State == workqueue.StateRetry || !j.State.Live() },
	do: func(ctx context.Context, q *workqueue.Queue, id string, by workqueue.By) (*workqueue.Job, error) {
		j, err := q.Get(ctx, id)
		if err == nil && j.State == workqueue.StateRetry {
			return q.Edit(ctx, id, func(p *workqueue.Params) error { p.RunAt = time.Time{}; return nil }, by)
		}
		return q.Requeue(ctx, id, by)
	},
}

func newJobsRetry(a *app) *cobra.Command {
	return newRepair(a, retryOfJobs, &cobra.Command{
		Use:   "retry QUEUE/ID | --queue QUEUE --state STATE...",
		Short: "Try jobs again that are dead, done or cancelled, or that wait after a failure",
		Long: `Try a job again, or many. One that is dead, done or cancelled comes back as by jobs
requeue: its counters start anew. One in state retry, which waits after a failure,
is claimable at once; its counters go on.

Many jobs are shown, counted and asked about first; each is then tried only if it is
still as it was shown, else it is skipped, and the exit code is 7.`,
		Example: `  leasectl jobs retry mail/welcome-7
  leasectl jobs retry --queue mail --state dead --reason "smtp fixed"
  leasectl jobs retry --queue mail --filter 'state:dead,retry error:*timeout* ended:<1h' --yes`,
	})
}

// inlineLimit is the size up to which a payload is kept with its job when that is done.
const inlineLimit = 1 << 10

// payloadGone tells of a job that cannot come back, since its payload went with it.
func payloadGone(j *workqueue.Job) bool {
	return (j.State == workqueue.StateDone || j.State == workqueue.StateCancelled) && j.PayloadSize > inlineLimit
}
