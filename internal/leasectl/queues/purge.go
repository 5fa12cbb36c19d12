package queues

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/filter"
	"github.com/leasekit/leasekit/internal/leasectl/jobs"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/workqueue"
)

// purgeItem is what became of a queue's jobs, in JSON.
type purgeItem struct {
	Queue   string          `json:"queue"`
	Deleted int             `json:"deleted"`
	Skipped []jobs.Repaired `json:"skipped"` // jobs that have moved since they were listed, or could not be deleted
	Removed bool            `json:"removed"` // the queue too
}

func newQueuesPurge(a *cli.App) *cobra.Command {
	var m cli.Mutation
	var states []string
	cmd := &cobra.Command{
		Use:   "purge QUEUE [--state STATE...]",
		Short: "Delete the jobs of a queue that wait or are dead",
		Long: `Delete the jobs of a queue for good: those that wait and those that are dead, or
those in the states that --state names. Jobs that are claimed are left alone, unless
--state claimed says so: their owners' results are refused then. The queue's name has
to be typed. A job that has moved since it was counted is skipped: exit code 7.`,
		Example: `  leasectl queues purge mail
  leasectl queues purge mail --state dead --yes
  leasectl queues purge mail --dry-run`,
		Args: cli.Takes("QUEUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("state") && len(states) == 0 {
				return exit.Usagef("leave it out, or --state dead", "--state is empty")
			}
			return runPurge(cmd.Context(), a, args[0], states, m)
		},
	}
	m.AddTracelessFlags(cmd.Flags())
	cmd.Flags().StringSliceVar(&states, "state", nil, "jobs in `STATE`[,STATE...] (default: ready,scheduled,retry,dead)")
	return cli.Destroys(cmd)
}

// purged are the states whose jobs a purge deletes if nothing else is said.
var purged = []workqueue.State{workqueue.StateReady, workqueue.StateScheduled, workqueue.StateRetry, workqueue.StateDead}

// purging is a purge of a queue: which jobs, and what it leaves alone.
func purging(queue string, states []string) (m jobs.Many, r jobs.Repair, err error) {
	m = jobs.Many{Queue: queue, All: true}
	wanted := purged
	if len(states) > 0 {
		m.Selection.States = states
		if err := m.Selection.Parse(nil); err != nil { // checks the names; a claimed one is an orphan too
			return m, r, err
		}
		wanted = m.Filter.States()
	}
	r = jobs.Deletion(slices.Contains(wanted, workqueue.StateClaimed))
	r.Spare = func(j *workqueue.Job) bool { return !slices.Contains(wanted, j.State) }
	// What is live is looked at in any case, so that it can be told what is left.
	m.Selection = filter.Selection{States: []string{"ready", "scheduled", "retry", "claimed", "orphan", "dead"}}
	for _, s := range wanted {
		if !slices.Contains(m.Selection.States, string(s)) {
			m.Selection.States = append(m.Selection.States, string(s))
		}
	}
	return m, r, m.Selection.Parse([]string{queue})
}

func runPurge(ctx context.Context, a *cli.App, queue string, states []string, m cli.Mutation) error {
	format, err := a.Format(output.ResultFormats...)
	if err != nil {
		return err
	}
	many, r, err := purging(queue, states)
	if err != nil {
		return err
	}
	return a.WithQueue(ctx, queue, func(c *connect.Conn, q *workqueue.Queue) error {
		f, err := jobs.Find(ctx, a, c, q, r, many)
		if err != nil {
			return err
		}
		if left := f.Left(); left != "" {
			a.Notef("left alone: %s", left)
		}
		if err := confirmPurge(ctx, a, c, queue, f, &m); err != nil || m.DryRun {
			return err
		}
		return purge(ctx, a, format, r, q, f, nil)
	})
}

// confirmPurge says what is about to be deleted, and wants the queue's name for it.
func confirmPurge(ctx context.Context, a *cli.App, c *connect.Conn, queue string, f jobs.Found, m *cli.Mutation) error {
	statement := fmt.Sprintf("This deletes %s of queue %s in %s", f.Text(), queue, c.Where())
	switch {
	case m.DryRun:
		a.Notef("%s: would delete %s of queue %s", c.Where(), f.Text(), queue)
		return nil
	case m.Yes || f.Len() == 0:
		a.Notef("%s", statement)
		return nil
	}
	return a.ConfirmTyped(ctx, m, "queue name", queue, statement)
}

// purge deletes the jobs, calls then, if there is something to do behind that, and tells the whole in one line.
func purge(ctx context.Context, a *cli.App, format string, r jobs.Repair, q *workqueue.Queue, f jobs.Found, then func(context.Context) error) error {
	done, err := r.Act(ctx, a, q, f, format, "")
	item := purgeItem{Queue: q.Name(), Deleted: done.Done, Skipped: []jobs.Repaired{}}
	for _, i := range done.Items {
		if i.Outcome != jobs.Done {
			item.Skipped = append(item.Skipped, i)
		}
	}
	past := "purged"
	if err == nil && then != nil {
		if err = then(ctx); err == nil {
			item.Removed, past = true, "removed"
		}
	}
	switch {
	case format == output.JSON:
		if perr := output.PrintJSON(a.Out, item); err == nil {
			err = perr
		}
	case err == nil && format == output.Name:
		err = a.PrintLine(escape.Ref("queue", q.Name()))
	case err == nil:
		err = a.PrintLine(fmt.Sprintf("%s %s (%s deleted)", escape.Ref("queue", q.Name()), past, output.Count(done.Done, "job")))
	}
	return err
}
