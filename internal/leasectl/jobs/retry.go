package jobs

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/workqueue"
)

// Retry tries jobs again. Of many it takes the dead ones alone: what is done would be done twice, and what waits after
// a failure is tried again by itself.
var Retry = Repair{
	verb:  "retry",
	past:  "retried",
	bulk:  true,
	Spare: func(j *workqueue.Job) bool { return j.State != workqueue.StateDead },
	Able:  func(j *workqueue.Job) bool { return j.State == workqueue.StateRetry || !j.State.Live() },
	do: func(ctx context.Context, q *workqueue.Queue, id string, by workqueue.By) (*workqueue.Job, error) {
		return q.Requeue(ctx, id, by)
	},
}

func newJobsRetry(a *cli.App) *cobra.Command {
	return newRepair(a, Retry, &cobra.Command{
		Use:   "retry QUEUE/ID | --queue QUEUE --state dead...",
		Short: "Try dead jobs again, or one job that is over or waits after a failure",
		Long: `Try a job again. One that is dead, done or cancelled comes back as by jobs requeue;
one in state retry, which waits after a failure, is claimable at once, in its place.
In both cases its counters start anew, and its history says who did it.

Of many jobs the dead ones are tried again, and all others left alone: jobs requeue
takes those that are done or cancelled. They are shown, counted by state and asked
about first; each is then tried only if it is still as it was shown, else it is
skipped, and the exit code is 7.`,
		Example: `  leasectl jobs retry mail/welcome-7
  leasectl jobs retry --queue mail --state dead --reason "smtp fixed"
  leasectl jobs retry --queue mail --filter 'state:dead error:*timeout* ended:<1h' --yes`,
	})
}

// inlineLimit is the size up to which a payload is kept with its job when that is done.
const inlineLimit = 1 << 10

// payloadGone tells of a job that cannot come back, since its payload went with it.
func payloadGone(j *workqueue.Job) bool {
	return (j.State == workqueue.StateDone || j.State == workqueue.StateCancelled) && j.PayloadSize > inlineLimit
}
