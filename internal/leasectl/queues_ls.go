package leasectl

import (
	"context"
	"fmt"
	"time"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/workqueue"
	"github.com/spf13/cobra"
)

func newQueuesLs(a *app) *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the queues with what is in them",
		Long: `List the queues under the root. OLDEST is the age of the oldest ready job. A queue
that nobody has used does not show.`,
		Example: `  leasectl queues ls
  leasectl queues ls -o json`,
		Aliases: []string{"list"},
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runList(cmd.Context(), a, o, lister[queueItem]{
				view:     queueView,
				load:     a.loadQueues,
				prefixes: func(keys coord.Keyspace) []string { return []string{keys.Queues(), keys.Sessions()} },
			})
		},
	}
	o.addFlags(cmd)
	return cmd
}

// queueItem is a queue as it is printed.
type queueItem struct {
	Name      string     `json:"name"`
	Mode      string     `json:"mode"`
	Paused    bool       `json:"paused"`
	PausedBy  string     `json:"paused_by,omitempty"`
	PausedWhy string     `json:"paused_why,omitempty"`
	Ready     int        `json:"ready"`
	Scheduled int        `json:"scheduled"`
	Retry     int        `json:"retry"`
	Claimed   int        `json:"claimed"`
	Orphan    int        `json:"orphan"`
	Done      int        `json:"done"`
	Dead      int        `json:"dead"`
	Oldest    *time.Time `json:"oldest_ready_at,omitempty"`
	Workers   int        `json:"workers"`
	Revision  string     `json:"config_revision"`
}

func queueItemOf(name string, s workqueue.Stats) queueItem {
	i := queueItem{
		Name: name, Mode: s.Mode, Paused: s.Paused,
		Ready: s.Jobs[workqueue.StateReady], Scheduled: s.Jobs[workqueue.StateScheduled], Retry: s.Jobs[workqueue.StateRetry],
		Claimed: s.Jobs[workqueue.StateClaimed], Orphan: s.Jobs[workqueue.StateOrphan],
		Done: s.Jobs[workqueue.StateDone], Dead: s.Jobs[workqueue.StateDead],
		Workers: s.Workers, Revision: fmt.Sprint(s.Revision),
	}
	if s.Paused {
		i.PausedBy, i.PausedWhy = s.PausedBy, s.PausedWhy
	}
	if !s.Oldest.IsZero() {
		i.Oldest = &s.Oldest
	}
	return i
}

func (a *app) loadQueues(ctx context.Context, c *connection) ([]queueItem, error) {
	names, err := a.queues(ctx, c)
	if err != nil {
		return nil, err
	}
	var items []queueItem
	for _, name := range names {
		s, err := a.queueStats(ctx, c, name)
		if err != nil {
			return nil, err
		}
		items = append(items, queueItemOf(name, s))
	}
	return items, nil
}

func (a *app) queueStats(ctx context.Context, c *connection, name string) (workqueue.Stats, error) {
	q, err := a.openQueue(ctx, c, name, nil)
	if err != nil {
		return workqueue.Stats{}, err
	}
	defer func() { _ = q.Close() }() // nothing was written
	return q.Stats(ctx)
}

var queueView = view[queueItem]{
	name: func(i queueItem) string { return "queue/" + i.Name },
	columns: []column[queueItem]{
		{"NAME", func(i queueItem) string { return i.Name }},
		{"MODE", func(i queueItem) string { return i.Mode }},
		{"PAUSED", func(i queueItem) string { return yesNo(i.Paused) }},
		{"READY", func(i queueItem) string { return fmt.Sprint(i.Ready) }},
		{"SCHEDULED", func(i queueItem) string { return fmt.Sprint(i.Scheduled) }},
		{"RETRY", func(i queueItem) string { return fmt.Sprint(i.Retry) }},
		{"CLAIMED", func(i queueItem) string { return fmt.Sprint(i.Claimed + i.Orphan) }},
		{"DONE", func(i queueItem) string { return fmt.Sprint(i.Done) }},
		{"DEAD", func(i queueItem) string { return fmt.Sprint(i.Dead) }},
		{"WORKERS", func(i queueItem) string { return fmt.Sprint(i.Workers) }},
		{"OLDEST", func(i queueItem) string {
			if i.Oldest == nil {
				return "-"
			}
			return age(time.Since(*i.Oldest))
		}},
	},
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
