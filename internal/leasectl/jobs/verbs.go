package jobs

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
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
	do:    requeue,
}

func requeue(ctx context.Context, q *workqueue.Queue, id string, by workqueue.By) (*workqueue.Job, error) {
	return q.Requeue(ctx, id, by)
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

func newJobsRequeue(a *cli.App) *cobra.Command {
	return newRepair(a, Repair{
		verb: "requeue",
		past: "requeued",
		bulk: true, Spare: payloadGone,
		Able: func(j *workqueue.Job) bool { return !j.State.Live() },
		do:   requeue,
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

func newJobsMove(a *cli.App) *cobra.Command {
	var to string
	var force bool
	cmd := newRepairOf(a, repairShape{bind: func(cmd *cobra.Command, args []string) (Repair, error) {
		if to == "" {
			return Repair{}, exit.Usagef("--to QUEUE", "%s--to is missing", cli.VerbPrefix(cmd))
		}
		return Repair{
			verb: "move", past: "moved", object: " to queue " + to, breaks: force,
			Able: func(j *workqueue.Job) bool {
				return j.State == workqueue.StateDead || j.State.Live() && (j.Owner == "" || force)
			},
			do: func(ctx context.Context, q *workqueue.Queue, id string, by workqueue.By) (*workqueue.Job, error) {
				return admin.Move(ctx, q, id, to, by)
			},
			hint: func(ref cli.JobRef, err error) string {
				if errors.Is(err, workqueue.ErrExists) {
					return "leasectl jobs get " + escape.Shell(cli.JobRef{Queue: to, ID: ref.ID}.Text())
				}
				return claimedHint("move")(ref, err)
			},
		}, nil
	}}, &cobra.Command{
		Use:   "move QUEUE/ID --to QUEUE",
		Short: "Take a job to another queue",
		Long: `Take a job to another queue, with its payload, checkpoint and log, under the same
ID: either it is here, or it is there. A live job stands there behind the jobs that
wait; a dead one is dead there too. An ID that the other queue has, or keeps, is a
conflict. So is a claimed job, unless --break-claim takes it from its owner, whose
result is refused from then on.`,
		Example: `  leasectl jobs move mail/welcome-7 --to mail-slow --reason "this tenant is throttled"
  leasectl jobs move mail/welcome-7 --to mail-slow --break-claim`,
	})
	cmd.Flags().StringVar(&to, "to", "", "the `QUEUE` that it goes to")
	cmd.Flags().BoolVar(&force, "break-claim", false, "take it from its owner, if it is claimed")
	return cmd
}

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
		verb: "delete", past: "deleted", breaks: force, bulk: true, hint: claimedHint("delete"),
		Able:   func(j *workqueue.Job) bool { return j.Owner == "" || force },
		severe: func(j *workqueue.Job) bool { return j.State == workqueue.StateDead || j.State.Live() },
		do:     admin.Delete,
	}
}
