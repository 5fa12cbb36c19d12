package queues

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/jobs"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/workqueue"
)

func newQueuesRm(a *cli.App) *cobra.Command {
	var m cli.Mutation
	cmd := &cobra.Command{
		Use:   "rm QUEUE",
		Short: "Take a queue away, with all its jobs",
		Long: `Take a queue away: all its jobs, the dead and the finished ones too, and its config,
and with that its mode and its pause. Where there are jobs, the queue's name has to
be typed. A queue that workers serve, or with jobs that are claimed, is a conflict:
stop them first. Whoever enqueues to it later makes it anew.`,
		Example: `  leasectl queues drain mail && leasectl queues rm mail
  leasectl queues rm mail --dry-run`,
		Aliases: []string{"delete"},
		Args:    cli.Takes("QUEUE"),
		RunE:    func(cmd *cobra.Command, args []string) error { return runQueueRm(cmd.Context(), a, args[0], m) },
	}
	m.AddTracelessFlags(cmd.Flags())
	return cli.Destroys(cmd)
}

func runQueueRm(ctx context.Context, a *cli.App, queue string, m cli.Mutation) error {
	format, err := a.Format(output.ResultFormats...)
	if err != nil {
		return err
	}
	many := jobs.Many{Queue: queue, All: true}
	if err := many.Selection.Parse([]string{queue}); err != nil {
		return err
	}
	r := jobs.Deletion(true)
	r.Able = func(j *workqueue.Job) bool { return j.State != workqueue.StateClaimed } // an orphan runs nowhere
	return a.WithQueue(ctx, queue, func(c *connect.Conn, q *workqueue.Queue) error {
		config, err := settingsOf(ctx, a, q)
		if err != nil {
			return err
		}
		f, err := jobs.Find(ctx, a, c, q, r, many)
		if err != nil {
			return err
		}
		if err := removable(q, config, f); err != nil {
			return err
		}
		if err := confirmPurge(ctx, a, c, queue, f, &m); err != nil || m.DryRun {
			return err
		}
		return purge(ctx, a, format, r, q, f, func(ctx context.Context) error {
			ctx, cancel := a.Bounded(ctx)
			defer cancel()
			return admin.Remove(ctx, q, workqueue.By{Actor: cli.Actor(), Revision: config.Revision})
		})
	})
}

// settingsOf reads the config of a queue, and how many workers it has.
func settingsOf(ctx context.Context, a *cli.App, q *workqueue.Queue) (admin.Stats, error) {
	ctx, cancel := a.Bounded(ctx)
	defer cancel()
	return admin.Count(ctx, q)
}

// removable returns why a queue cannot be removed.
func removable(q *workqueue.Queue, s admin.Stats, f jobs.Found) error {
	switch {
	case s.Workers > 0:
		return &exit.Error{Code: exit.Conflict, Err: fmt.Errorf("remove queue %s: %s it", q.Name(), serving(s.Workers)), Try: "stop them; leasectl workers ls"}
	case f.Left() != "":
		return &exit.Error{Code: exit.Conflict, Err: fmt.Errorf("remove queue %s: it has %s", q.Name(), f.Left()), Try: "leasectl queues drain " + escape.Shell(q.Name())}
	case f.Len() == 0 && s.Revision == 0:
		return &exit.Error{Code: exit.NotFound, Err: fmt.Errorf("there is no queue %s", q.Name()), Try: "leasectl queues ls"}
	}
	return nil
}

func serving(workers int) string {
	if workers == 1 {
		return "1 worker serves"
	}
	return fmt.Sprintf("%d workers serve", workers)
}
