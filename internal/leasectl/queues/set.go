package queues

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/workqueue"
)

// queueChange is a change of a queue's config, as a verb makes it.
type queueChange struct {
	what string // for people: "pause", "set mode dispatch of"
	past string
	// known changes make sense only for a queue that is there; the others may come before its first job.
	known bool
	// settings tells that the settings are what changes.
	settings bool
	do       func(context.Context, *workqueue.Queue, workqueue.By) error
}

func newQueuesSet(a *cli.App) *cobra.Command {
	var m cli.Mutation
	var mode string
	var settings settingFlags
	cmd := &cobra.Command{
		Use:   "set QUEUE --mode claim|dispatch | SETTINGS",
		Short: "Choose how a queue's jobs are shared, for how long they are kept and when they are tried again",
		Long: `Choose how a queue's jobs are shared: in mode claim each worker claims for itself;
in mode dispatch one elected dispatcher hands them out, and workers watch only
their inbox, so thousands can serve one queue. Workers follow at once; what they
run goes on. Mode dispatch needs a dispatcher: see leasectl dispatch. A queue can be
set before its first job; a note on stderr says that there is nothing in it.

Settings are kept with the queue, and go for all processes that serve it, while they
run too, for the jobs that end from then on. A program that asks for less keeps less
(workqueue.Config). default takes a setting back: then each process goes by its own,
which is 1h, 10000 jobs and 64MiB where it says nothing, and a backoff of 1s,10m,2.
The mode and settings are set by a command each.`,
		Example: `  leasectl queues set mail --mode dispatch
  leasectl queues set mail --mode claim --dry-run
  leasectl queues set mail --retain 24h --retain-jobs 50000 --reason "audit"
  leasectl queues set mail --backoff 5s,1h --retain default`,
		Args: cli.Takes("QUEUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var given workqueue.Config
			if err := settings.apply(&given); err != nil {
				return err
			}
			switch {
			case settings != (settingFlags{}) && cmd.Flags().Changed("mode"):
				return exit.Usagef("the same with --mode alone, and again without", "--mode and settings are set by a command each")
			case settings != (settingFlags{}):
				return runQueueChange(cmd.Context(), a, args[0], m, settings.change())
			case mode != workqueue.ModeClaim && mode != workqueue.ModeDispatch:
				return exit.Usagef("--mode claim or --mode dispatch, or a setting such as --retain 24h", "--mode is %q: want claim or dispatch", mode)
			}
			return runQueueChange(cmd.Context(), a, args[0], m, queueChange{
				what: "set mode " + mode + " of", past: "set to mode " + mode,
				do: func(ctx context.Context, q *workqueue.Queue, by workqueue.By) error { return q.SetMode(ctx, mode, by) },
			})
		},
	}
	m.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&mode, "mode", "", "share jobs by `MODE`: claim or dispatch")
	settings.addFlags(cmd.Flags())
	return cmd
}

func newQueuesPause(a *cli.App) *cobra.Command {
	return newQueueChange(a, &cobra.Command{
		Use:   "pause QUEUE",
		Short: "Stop claiming from a queue",
		Long: `Stop claiming from a queue: once this returns, no worker claims a job from it.
Jobs that run go on. Enqueuing goes on too. A queue can be paused before its first
job; a note on stderr says that there is nothing in it.`,
		Example: `  leasectl queues pause mail --reason "smtp is down"`,
	}, queueChange{
		what: "pause", past: "paused",
		do: func(ctx context.Context, q *workqueue.Queue, by workqueue.By) error { return q.Pause(ctx, by) },
	})
}

func newQueuesResume(a *cli.App) *cobra.Command {
	return newQueueChange(a, &cobra.Command{
		Use:     "resume QUEUE",
		Short:   "Claim from a paused queue again",
		Long:    "Claim from a paused queue again. Exit code 3 means that there is no such queue.",
		Example: `  leasectl queues resume mail`,
	}, queueChange{
		what: "resume", past: "resumed", known: true,
		do: func(ctx context.Context, q *workqueue.Queue, by workqueue.By) error { return q.Resume(ctx, by) },
	})
}

// newQueueChange completes a verb that makes one change.
func newQueueChange(a *cli.App, cmd *cobra.Command, change queueChange) *cobra.Command {
	var m cli.Mutation
	cmd.Args = cli.Takes("QUEUE")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return runQueueChange(cmd.Context(), a, args[0], m, change)
	}
	m.AddFlags(cmd.Flags())
	return cmd
}

// runQueueChange shows what is there, and changes exactly that.
func runQueueChange(ctx context.Context, a *cli.App, name string, m cli.Mutation, change queueChange) error {
	return a.WithQueue(ctx, name, func(c *connect.Conn, q *workqueue.Queue) error {
		look := a.NoteNewQueue
		if change.known {
			look = a.NeedQueue
		}
		if err := look(ctx, c, name); err != nil {
			return err
		}
		ctx, cancel := a.Bounded(ctx)
		defer cancel()
		s, err := admin.Settings(ctx, q)
		if err != nil {
			return configHint(err)
		}
		a.Notef("%s: %s%s queue %s (mode %s, paused %s, config revision %d)",
			c.Where(), m.Would(), change.what, name, s.Mode, output.YesNo(s.Paused), s.Revision)
		if change.settings {
			noteSettings(a, s)
		}
		if m.DryRun {
			return nil
		}
		if err := change.do(ctx, q, workqueue.By{Actor: cli.Actor(), Reason: m.Reason, Revision: s.Revision}); err != nil {
			return cli.About(cli.JobRef{Queue: name}, err)
		}
		return output.Told(escape.Ref("queue", name)+" "+change.past, a.PrintLine(escape.Ref("queue", name)+" "+change.past))
	})
}

// configHint is the way out where the config of a queue cannot be read: nobody changes what he has not understood.
func configHint(err error) error {
	if errors.Is(err, workqueue.ErrUndecodable) {
		return &exit.Error{Err: err, Try: "leasectl doctor --fix, then the same command"}
	}
	return err
}
