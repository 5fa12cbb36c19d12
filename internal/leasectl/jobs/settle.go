package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/workqueue"
)

// step is one thing that the owner of a claim does with it, in a process of its own.
type step struct {
	verb, past string
	do         func(context.Context, *workqueue.Claim) error
}

const fencingNote = `
The token is what jobs claim printed. A stale one changes nothing: exit code 5, and
the refusal is kept as evidence. Without --nonce the case is not covered that the
cluster was restored from a backup, whose revisions can come again.`

// newStep completes the command of a step.
func newStep(a *cli.App, cmd *cobra.Command, o *cli.Proof, prepare func() (step, error)) *cobra.Command {
	cmd.Args = cli.Takes("QUEUE/ID")
	cmd.Long += fencingNote
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ref, err := cli.ParseJobRef(args[0])
		if err != nil {
			return err
		}
		token, err := o.Parse("jobs claim")
		if err != nil {
			return err
		}
		s, err := prepare()
		if err != nil {
			return err
		}
		return runStep(cmd.Context(), a, ref, token, o.Nonce, s)
	}
	o.AddFlags(cmd.Flags())
	return cli.Writes(cmd)
}

// steppedItem is what a step prints as JSON.
type steppedItem struct {
	ID      string `json:"id"`
	Queue   string `json:"queue"`
	Token   string `json:"token"`
	Outcome string `json:"outcome"`
}

func runStep(ctx context.Context, a *cli.App, ref cli.JobRef, token coord.Token, nonce string, s step) error {
	format, err := a.Format(output.ResultFormats...)
	if err != nil {
		return err
	}
	return a.WithQueue(ctx, ref.Queue, func(_ *connect.Conn, q *workqueue.Queue) error {
		ctx, cancel := a.Bounded(ctx)
		defer cancel()
		claim, err := q.ResumeClaim(ctx, ref.ID, token, nonce)
		if err == nil {
			err = s.do(ctx, claim)
		}
		if err != nil {
			return cli.About(ref, err)
		}
		done := ref.Name() + " " + s.past
		return output.Told(done, a.PrintDone(format, steppedItem{ref.ID, ref.Queue, token.String(), s.past}, ref.Name(), done))
	})
}

// readBody reads what a step is given on stdin; a terminal gives nothing.
func readBody(a *cli.App, what string) ([]byte, error) {
	if output.IsTerminal(a.In) {
		return nil, nil
	}
	b, err := io.ReadAll(io.LimitReader(a.In, workqueue.MaxResult+1))
	if err != nil {
		return nil, fmt.Errorf("read the %s from stdin: %w", what, err)
	}
	if len(b) > workqueue.MaxResult {
		return nil, exit.Usagef("", "the %s on stdin is larger than %d bytes", what, workqueue.MaxResult)
	}
	return b, nil
}

func newJobsComplete(a *cli.App) *cobra.Command {
	var o cli.Proof
	return newStep(a, &cobra.Command{
		Use:   "complete QUEUE/ID --token N",
		Short: "Hand in the result of a claimed job, from stdin",
		Long: `Hand in the result of a claimed job: stdin, byte for byte, as far as it is no
terminal. The job is done when this exits with 0, once, however often it is called.
`,
		Example: `  echo ok | leasectl jobs complete mail/welcome-7 --token 918250 --nonce 5f1c...
  leasectl jobs complete mail/welcome-7 --token "$TOKEN" --nonce "$NONCE" </dev/null`,
	}, &o, func() (step, error) {
		result, err := readBody(a, "result")
		return step{"complete", "completed", func(ctx context.Context, c *workqueue.Claim) error { return c.Complete(ctx, result) }}, err
	})
}

func newJobsFail(a *cli.App) *cobra.Command {
	var o cli.Proof
	var text string
	var permanent bool
	var after time.Duration
	cmd := newStep(a, &cobra.Command{
		Use:   "fail QUEUE/ID --token N",
		Short: "Say that a claimed job failed",
		Long: `Say that a claimed job failed: it is tried again with backoff, or is dead when its
attempts are used up.
`,
		Example: `  leasectl jobs fail mail/welcome-7 --token 918250 --error "smtp 421" --retry-after 1m
  leasectl jobs fail mail/welcome-7 --token 918250 --error "no such user" --permanent`,
	}, &o, func() (step, error) {
		if permanent && after != 0 || after < 0 {
			return step{}, exit.Usagef("--permanent or --retry-after 1m", "--retry-after is %v: it is positive, and not for what is --permanent", after)
		}
		return step{"fail", "failed", func(ctx context.Context, c *workqueue.Claim) error {
			err := errors.New(cmp.Or(text, "failed without an error"))
			switch {
			case permanent:
				err = workqueue.Permanent(err)
			case after > 0:
				err = workqueue.RetryAfter(after, err)
			}
			return c.Fail(ctx, err)
		}}, nil
	})
	cmd.Flags().StringVar(&text, "error", "", "keep `TEXT` as the attempt's error")
	cmd.Flags().BoolVar(&permanent, "permanent", false, "dead at once: trying again would not help")
	cmd.Flags().DurationVar(&after, "retry-after", 0, "try again after `TIME` instead of the backoff")
	return cmd
}

// newNote is progress and checkpoint, which keep something and leave the claim open.
func newNote(a *cli.App, verb, past string, cmd *cobra.Command, keep func(*workqueue.Claim, context.Context, []byte) error) *cobra.Command {
	var o cli.Proof
	return newStep(a, cmd, &o, func() (step, error) {
		b, err := readBody(a, verb) // the library knows the limit of notes
		return step{verb, past, func(ctx context.Context, c *workqueue.Claim) error { return keep(c, ctx, b) }}, err
	})
}

func newJobsProgress(a *cli.App) *cobra.Command {
	return newNote(a, "progress", "reported", &cobra.Command{
		Use:   "progress QUEUE/ID --token N",
		Short: "Report how far a claimed job is, from stdin",
		Long: `Report how far a claimed job is: stdin, at most 64 KiB, shown by jobs get. A loss of
the worker after it does not count against the job.
`,
		Example: `  echo '{"pages":12}' | leasectl jobs progress mail/welcome-7 --token 918250`,
	}, (*workqueue.Claim).Progress)
}

func newJobsCheckpoint(a *cli.App) *cobra.Command {
	return newNote(a, "checkpoint", "kept", &cobra.Command{
		Use:   "checkpoint QUEUE/ID --token N",
		Short: "Keep what the next attempt needs to go on, from stdin",
		Long: `Keep what the next attempt needs to go on: stdin, at most 64 KiB. jobs claim prints
it to whoever claims the job next.
`,
		Example: `  echo page-12 | leasectl jobs checkpoint mail/welcome-7 --token 918250`,
	}, (*workqueue.Claim).Checkpoint)
}

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
		do: admin.BreakClaim,
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
