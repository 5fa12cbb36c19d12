package leasectl

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/escape"
)

func newQueuesDescribe(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "describe QUEUE",
		Short: "Show one queue, who serves it, its problems, and what can be done next",
		Long: `Show one queue: how its jobs are shared, its settings, what is in it, what happened
in the last 5 minutes, who serves it, its problems, and what can be done next. A
setting that says default is left to each process: see leasectl queues set --help.`,
		Example: `  leasectl queues describe mail`,
		Args:    takes("QUEUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := a.format(describeFormats...)
			if err != nil {
				return err
			}
			return a.withEtcd(cmd.Context(), func(c *connection) error {
				d, err := loadQueueDetail(cmd.Context(), a, c, args[0])
				if err != nil {
					return err
				}
				return printSheet(a.out, format, d, d.sheet(time.Now()))
			})
		},
	}
}

// queueDetail is a queue with who serves it.
type queueDetail struct {
	queueItem
	Sessions []workerItem  `json:"sessions"` // that serve it, or own jobs of it
	Problems []problemItem `json:"problems"`
}

func loadQueueDetail(ctx context.Context, a *app, c *connection, name string) (queueDetail, error) {
	q, err := readKnownQueue(ctx, a, c, name)
	if err != nil {
		return queueDetail{}, err
	}
	workers, err := readWorkers(ctx, a, c, []queueItem{q})
	if err != nil {
		return queueDetail{}, err
	}
	d := queueDetail{queueItem: q, Sessions: []workerItem{}, Problems: problemsOf([]queueItem{q}, time.Now())}
	for _, w := range workers {
		if len(w.Queues) > 0 {
			d.Sessions = append(d.Sessions, w)
		}
	}
	return d, addLeases(ctx, c, d.Sessions)
}

func (d queueDetail) sheet(now time.Time) *sheet {
	s := &sheet{}
	s.line("Queue", "%s    mode %s    config revision %s", d.Name, d.Mode, d.Revision)
	if d.Paused {
		ago := ""
		if d.PausedAt != nil {
			ago = " " + age(now.Sub(*d.PausedAt)) + " ago"
		}
		s.line("Paused", "by %s%s%s", d.PausedBy, ago, whyText(d.PausedWhy))
	}
	s.line("Settings", "%s%s", settingsText(d.set), d.setText(now))
	oldest := ""
	if d.Oldest != nil {
		oldest = "    oldest " + age(now.Sub(*d.Oldest))
	}
	s.line("Jobs", "%d ready  %d scheduled  %d retry  %d claimed  %d orphan%s", d.Ready, d.Scheduled, d.Retry, d.Claimed, d.Orphan, oldest)
	s.line("Over", "%d dead  %d done or cancelled, and kept", d.Dead, d.Done)
	s.line("Last 5m", "%s", d.Recent.text(now))
	rows := [][]string{}
	for _, w := range d.Sessions {
		rows = append(rows, []string{w.Name, w.State, w.busyText(), w.Session, since(w.Opened)})
	}
	s.table("Workers", rows)
	for _, p := range d.Problems {
		s.line("Problem", "%s %s   run: %s", p.Code, p.Message, p.Run)
	}
	s.line("Next", "%s", strings.Join(d.next(), "   |   "))
	return s
}

// next are the commands that fit.
func (d queueDetail) next() []string {
	name := escape.Shell(d.Name)
	next := []string{"leasectl jobs ls " + name}
	if d.Paused {
		next = append(next, "leasectl queues resume "+name)
	} else {
		next = append(next, "leasectl queues pause "+name)
	}
	if d.Dead > 0 {
		next = append(next, "leasectl jobs ls "+name+" --state dead")
	}
	return slices.Clip(next)
}

// setText is who set the mode or the settings last.
func (d queueDetail) setText(now time.Time) string {
	if d.SetAt == nil {
		return ""
	}
	return fmt.Sprintf("    set by %s %s ago%s", d.SetBy, age(now.Sub(*d.SetAt)), whyText(d.SetWhy))
}
