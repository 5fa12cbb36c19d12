package leasectl

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/escape"
	"github.com/leasekit/leasekit/workqueue"
)

func newQueuesRm(a *app) *cobra.Command {
	var m mutation
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
		Args:    takes("QUEUE"),
		RunE:    func(cmd *cobra.Command, args []string) error { return runQueueRm(cmd.Context(), a, args[0], m) },
	}
	m.addTracelessFlags(cmd.Flags())
	return destroys(cmd)
}

func runQueueRm(ctx context.Context, a *app, queue string, m mutation) error {
	format, err := a.format(resultFormats...)
	if err != nil {
		return err
	}
	many := manyJobs{queue: queue, all: true}
	if err := many.selection.parse([]string{queue}); err != nil {
		return err
	}
	r := deletion(true)
	r.able = func(j *workqueue.Job) bool { return j.State != workqueue.StateClaimed } // an orphan runs nowhere
	return a.withQueue(ctx, queue, func(c *connection, q *workqueue.Queue) error {
		config, err := settingsOf(ctx, a, q)
		if err != nil {
			return err
		}
		f, err := findMany(ctx, a, c, q, r, many)
		if err != nil {
			return err
		}
		if err := removable(q, config, f); err != nil {
			return err
		}
		if err := confirmPurge(ctx, a, c, queue, f, &m); err != nil || m.dryRun {
			return err
		}
		return purge(ctx, a, format, r, q, f, func(ctx context.Context) error {
			ctx, cancel := a.bounded(ctx)
			defer cancel()
			return q.Remove(ctx, workqueue.By{Actor: actor(), Revision: config.Revision})
		})
	})
}

// settingsOf reads the config of a queue, and how many workers it has.
func settingsOf(ctx context.Context, a *app, q *workqueue.Queue) (workqueue.Stats, error) {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	return q.Stats(ctx)
}

// removable returns why a queue cannot be removed.
func removable(q *workqueue.Queue, s workqueue.Stats, f found) error {
	left := 0
	for _, n := range f.left {
		left += n
	}
	switch {
	case s.Workers > 0:
		return &failure{code: exitConflict, err: fmt.Errorf("remove queue %s: %s it", q.Name(), serving(s.Workers)), try: "stop them; leasectl workers ls"}
	case left > 0:
		return &failure{code: exitConflict, err: fmt.Errorf("remove queue %s: it has %s", q.Name(), countText(f.left)), try: "leasectl queues drain " + escape.Shell(q.Name())}
	case len(f.jobs) == 0 && s.Revision == 0:
		return &failure{code: exitNotFound, err: fmt.Errorf("there is no queue %s", q.Name()), try: "leasectl queues ls"}
	}
	return nil
}

func serving(workers int) string {
	if workers == 1 {
		return "1 worker serves"
	}
	return fmt.Sprintf("%d workers serve", workers)
}
