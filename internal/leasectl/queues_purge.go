package leasectl

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/workqueue"
)

// purgeItem is what became of a queue's jobs, in JSON.
type purgeItem struct {
	Queue   string         `json:"queue"`
	Deleted int            `json:"deleted"`
	Skipped []repairedItem `json:"skipped"` // jobs that have moved since they were listed, or could not be deleted
	Removed bool           `json:"removed"` // the queue too
}

func newQueuesPurge(a *app) *cobra.Command {
	var m mutation
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
		Args: takes("QUEUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("state") && len(states) == 0 {
				return usagef("leave it out, or --state dead", "--state is empty")
			}
			return runPurge(cmd.Context(), a, args[0], states, m)
		},
	}
	m.addTracelessFlags(cmd.Flags())
	cmd.Flags().StringSliceVar(&states, "state", nil, "jobs in `STATE`[,STATE...] (default: ready,scheduled,retry,dead)")
	return destroys(cmd)
}

// purged are the states whose jobs a purge deletes if nothing else is said.
var purged = []workqueue.State{workqueue.StateReady, workqueue.StateScheduled, workqueue.StateRetry, workqueue.StateDead}

// purging is a purge of a queue: which jobs, and what it leaves alone.
func purging(queue string, states []string) (m manyJobs, r repair, err error) {
	m = manyJobs{queue: queue, all: true}
	wanted := purged
	if len(states) > 0 {
		m.selection.states = states
		if err := m.selection.parse(nil); err != nil { // checks the names; a claimed one is an orphan too
			return m, r, err
		}
		wanted = m.filter.states()
	}
	r = deletion(slices.Contains(wanted, workqueue.StateClaimed))
	r.spare = func(j *workqueue.Job) bool { return !slices.Contains(wanted, j.State) }
	// What is live is looked at in any case, so that it can be told what is left.
	m.selection = selection{states: []string{"ready", "scheduled", "retry", "claimed", "orphan", "dead"}}
	for _, s := range wanted {
		if !slices.Contains(m.selection.states, string(s)) {
			m.selection.states = append(m.selection.states, string(s))
		}
	}
	return m, r, m.selection.parse([]string{queue})
}

func runPurge(ctx context.Context, a *app, queue string, states []string, m mutation) error {
	format, err := a.format(resultFormats...)
	if err != nil {
		return err
	}
	many, r, err := purging(queue, states)
	if err != nil {
		return err
	}
	return a.withQueue(ctx, queue, func(c *connection, q *workqueue.Queue) error {
		f, err := findMany(ctx, a, c, q, r, many)
		if err != nil {
			return err
		}
		if len(f.left) > 0 {
			a.notef("left alone: %s", countText(f.left))
		}
		if err := confirmPurge(ctx, a, c, queue, f, &m); err != nil || m.dryRun {
			return err
		}
		return purge(ctx, a, format, r, q, f, nil)
	})
}

// confirmPurge says what is about to be deleted, and wants the queue's name for it.
func confirmPurge(ctx context.Context, a *app, c *connection, queue string, f found, m *mutation) error {
	statement := fmt.Sprintf("This deletes %s of queue %s in %s", countText(f.counts), queue, c.where())
	switch {
	case m.dryRun:
		a.notef("%s: would delete %s of queue %s", c.where(), countText(f.counts), queue)
		return nil
	case m.yes || len(f.jobs) == 0:
		a.notef("%s", statement)
		return nil
	}
	return a.confirmTyped(ctx, m, "queue name", queue, statement)
}

// purge deletes the jobs, calls then, if there is something to do behind that, and tells the whole in one line.
func purge(ctx context.Context, a *app, format string, r repair, q *workqueue.Queue, f found, then func(context.Context) error) error {
	rs := &repairs{a: a, r: r, q: q, found: f, format: format, quiet: true, by: workqueue.By{Actor: actor(), BreakClaim: r.breaks}}
	err := rs.run(ctx)
	item := purgeItem{Queue: q.Name(), Deleted: rs.done, Skipped: []repairedItem{}}
	for _, i := range rs.items {
		if i.Outcome != repairDone {
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
	case format == formatJSON:
		if perr := printJSON(a.out, item); err == nil {
			err = perr
		}
	case err == nil && format == formatName:
		err = a.printLine(refName("queue", q.Name()))
	case err == nil:
		err = a.printLine(fmt.Sprintf("%s %s (%s deleted)", refName("queue", q.Name()), past, count(rs.done, "job")))
	}
	return err
}
