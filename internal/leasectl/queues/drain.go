package queues

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/workqueue"
)

// drainItem is what a drain ended with, in JSON.
type drainItem struct {
	Queue   string `json:"queue"`
	Drained bool   `json:"drained"`
	Claimed int    `json:"claimed"` // jobs that still run
	Orphans int    `json:"orphans"` // jobs whose owner is gone; they wait until the queue is resumed
}

func newQueuesDrain(a *cli.App) *cobra.Command {
	var m cli.Mutation
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "drain QUEUE",
		Short: "Pause a queue and wait until none of its jobs runs",
		Long: `Pause a queue, and wait until none of its jobs runs. It stays paused, whatever this
ends with: leasectl queues resume lets it go on. A job whose owner is gone runs
nowhere and is not waited for. With --timeout exit code 6 means that some still run;
exit code 3 means that there is no such queue.`,
		Example: `  leasectl queues drain mail --timeout 10m --reason "db migration"
  leasectl queues drain mail && ./migrate && leasectl queues resume mail`,
		Args: cli.Takes("QUEUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout < 0 {
				return exit.Usagef("--timeout 10m", "--timeout is %v: it must not be negative", timeout)
			}
			return runDrain(cmd.Context(), a, args[0], m, timeout)
		},
	}
	m.AddFlags(cmd.Flags())
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "wait for `TIME` at most (default: as long as it takes)")
	return cmd
}

// errDrainTimeout is the cause of a wait that took too long.
var errDrainTimeout = errors.New("the time is over")

func runDrain(ctx context.Context, a *cli.App, queue string, m cli.Mutation, timeout time.Duration) error {
	format, err := a.Format(output.ResultFormats...)
	if err != nil {
		return err
	}
	return a.WithQueue(ctx, queue, func(c *connect.Conn, q *workqueue.Queue) error {
		if err := a.NeedQueue(ctx, c, queue); err != nil {
			return err
		}
		s, err := settingsOf(ctx, a, q)
		if err != nil {
			return configHint(err)
		}
		a.Notef("%s: %sdrain queue %s (paused %s, %d running, config revision %d)",
			c.Where(), m.Would(), queue, output.YesNo(s.Paused), s.Jobs[workqueue.StateClaimed], s.Revision)
		if m.DryRun {
			return nil
		}
		if err := pauseToDrain(ctx, a, q, s, m); err != nil {
			return err
		}
		waiting := ctx
		if timeout > 0 {
			var cancel context.CancelFunc
			waiting, cancel = context.WithTimeoutCause(ctx, timeout, errDrainTimeout)
			defer cancel()
		}
		item, err := awaitIdle(waiting, a, c, q)
		switch {
		case errors.Is(context.Cause(waiting), errDrainTimeout) && !item.Drained:
			err = &exit.Error{Code: exit.Unreachable, Err: fmt.Errorf("queue %s is paused, and after %v it still runs %s", queue, timeout, output.Count(item.Claimed, "job")),
				Try: "leasectl jobs ls " + escape.Shell(queue) + " --state claimed"}
		case err != nil:
			return err
		}
		return errors.Join(err, printDrained(a, format, item))
	})
}

// pauseFor pauses the queue, unless it is.
func pauseToDrain(ctx context.Context, a *cli.App, q *workqueue.Queue, s admin.Stats, m cli.Mutation) error {
	if s.Paused {
		return nil
	}
	ctx, cancel := a.Bounded(ctx)
	defer cancel()
	return q.Pause(ctx, workqueue.By{Actor: cli.Actor(), Reason: m.Reason, Revision: s.Revision})
}

// awaitIdle waits until no job of a paused queue runs.
func awaitIdle(ctx context.Context, a *cli.App, c *connect.Conn, q *workqueue.Queue) (item drainItem, err error) {
	store := c.Store()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	keys := store.Keys()
	changed := a.WatchPrefixes(ctx, store, []string{keys.Queue(q.Name()).Jobs(), keys.Sessions()})
	defer connect.WatchOver(ctx, c, a.Notef)()
	item.Queue = q.Name()
	told := -1
	for begun := false; ; begun = true {
		s, err := admin.Count(ctx, q)
		if err != nil {
			if err := connect.Outlast(ctx, begun, nil, err); err != nil {
				return item, err
			}
			continue
		}
		item.Claimed, item.Orphans = s.Jobs[workqueue.StateClaimed], s.Jobs[workqueue.StateOrphan]
		if item.Drained = item.Claimed == 0; item.Drained {
			return item, nil
		}
		if item.Claimed != told {
			told = item.Claimed
			a.Notef("%d still running", told)
		}
		select {
		case <-ctx.Done():
			return item, context.Cause(ctx)
		case err := <-changed:
			if err != nil {
				return item, err
			}
		}
	}
}

func printDrained(a *cli.App, format string, item drainItem) error {
	if !item.Drained && format != output.JSON {
		return nil
	}
	line := escape.Ref("queue", item.Queue) + " drained"
	if item.Orphans > 0 {
		line += fmt.Sprintf(" (%s waits for a new owner)", output.Count(item.Orphans, "orphan"))
	}
	return a.PrintDone(format, item, escape.Ref("queue", item.Queue), line)
}
