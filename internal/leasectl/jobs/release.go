package jobs

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/workqueue"
)

func newJobsRelease(a *cli.App) *cobra.Command {
	var o cli.Proof
	var after time.Duration
	var force bool
	broken := newRepair(a, Repair{
		verb: "break the claim of",
		past: "released: its owner is fenced",
		Able: func(j *workqueue.Job) bool {
			return j.State == workqueue.StateClaimed || j.State == workqueue.StateOrphan
		},
		do: func(ctx context.Context, q *workqueue.Queue, id string, by workqueue.By) (*workqueue.Job, error) {
			return admin.BreakClaim(ctx, q, id, by)
		},
	}, &cobra.Command{})
	cmd := newStep(a, &cobra.Command{
		Use:   "release QUEUE/ID --token N | --break-claim",
		Short: "Give a claimed job back, or take it from its owner",
		Long: `Give a claimed job back, as its owner: it is claimable again at once, or after
--after, and nothing is counted. With --break-claim somebody else takes it from its
owner: whatever the owner writes from then on is refused.
`,
		Example: `  leasectl jobs release mail/welcome-7 --token 918250
  leasectl jobs release mail/welcome-7 --break-claim --reason "the worker hangs"`,
	}, &o, func() (step, error) {
		if after < 0 {
			return step{}, exit.Usagef("--after 1m", "--after is %v: it must not be negative", after)
		}
		return step{"release", "released", func(ctx context.Context, c *workqueue.Claim) error {
			if after > 0 {
				return c.Fail(ctx, workqueue.Snooze(after))
			}
			return c.Release(ctx)
		}}, nil
	})
	asOwner := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case force && (o.Token != "" || o.Nonce != "" || after != 0):
			return exit.Usagef("--break-claim alone", "--break-claim takes the job from its owner: --token, --nonce and --after are the owner's")
		case force:
			return broken.RunE(cmd, args)
		case o.Token == "":
			return exit.Usagef("--token N as its owner, or --break-claim", "neither --token nor --break-claim is given")
		}
		return asOwner(cmd, args)
	}
	cmd.Flags().AddFlagSet(broken.Flags())
	cmd.Flags().BoolVar(&force, "break-claim", false, "take the job from its owner")
	cmd.Flags().DurationVar(&after, "after", 0, "claimable again after `TIME`")
	return cmd
}
