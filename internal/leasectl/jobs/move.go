package jobs

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/escape"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/workqueue"
)

func newJobsMove(a *cli.App) *cobra.Command {
	var to string
	var force bool
	cmd := newRepairOf(a, repairShape{bind: func(cmd *cobra.Command, args []string) (Repair, error) {
		if to == "" {
			return Repair{}, exit.Usagef("--to QUEUE", "%s--to is missing", cli.VerbPrefix(cmd))
		}
		return Repair{
			verb: "move", past: "moved", object: " to queue " + to, Breaks: force,
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
