package queues

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/look"
	"github.com/leasekit/leasekit/internal/leasectl/output"
)

func newQueuesDescribe(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "describe QUEUE",
		Short: "Show one queue, who serves it, its problems, and what can be done next",
		Long: `Show one queue: how its jobs are shared, its settings, what is in it, what happened
in the last 5 minutes, who serves it, its problems, and what can be done next. A
setting that says default is left to each process: see leasectl queues set --help.`,
		Example: `  leasectl queues describe mail`,
		Args:    cli.Takes("QUEUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := a.Format(output.DescribeFormats...)
			if err != nil {
				return err
			}
			return a.WithEtcd(cmd.Context(), func(c *connect.Conn) error {
				d, err := loadQueueDetail(cmd.Context(), a, c, args[0])
				if err != nil {
					return err
				}
				return output.PrintSheet(a.Out, format, d, d.sheet(time.Now()))
			})
		},
	}
}

// queueDetail is a queue with who serves it.
type queueDetail struct {
	look.Queue
	Sessions []look.Worker  `json:"sessions"` // that serve it, or own jobs of it
	Problems []look.Problem `json:"problems"`
}

func loadQueueDetail(ctx context.Context, a *cli.App, c *connect.Conn, name string) (queueDetail, error) {
	q, err := readKnownQueue(ctx, a, c, name)
	if err != nil {
		return queueDetail{}, err
	}
	workers, err := look.ReadWorkers(ctx, a, c, []look.Queue{q})
	if err != nil {
		return queueDetail{}, err
	}
	d := queueDetail{Queue: q, Sessions: []look.Worker{}, Problems: look.Problems([]look.Queue{q}, time.Now())}
	for _, w := range workers {
		if len(w.Queues) > 0 {
			d.Sessions = append(d.Sessions, w)
		}
	}
	return d, look.AddLeases(ctx, c, d.Sessions)
}

func (d queueDetail) sheet(now time.Time) *output.Sheet {
	s := &output.Sheet{}
	s.Line("Queue", "%s    mode %s    config revision %s", d.Name, d.Mode, d.Revision)
	if d.Paused {
		ago := ""
		if d.PausedAt != nil {
			ago = " " + output.Age(now.Sub(*d.PausedAt)) + " ago"
		}
		s.Line("Paused", "by %s%s%s", d.PausedBy, ago, output.Why(d.PausedWhy))
	}
	s.Line("Settings", "%s%s", look.SettingsText(d.Set), d.setText(now))
	oldest := ""
	if d.Oldest != nil {
		oldest = "    oldest " + output.Age(now.Sub(*d.Oldest))
	}
	s.Line("Jobs", "%d ready  %d scheduled  %d retry  %d claimed  %d orphan%s", d.Ready, d.Scheduled, d.Retry, d.Claimed, d.Orphan, oldest)
	s.Line("Over", "%d dead  %d done or cancelled, and kept", d.Dead, d.Done)
	s.Line("Last 5m", "%s", d.Recent.Text(now))
	rows := [][]string{}
	for _, w := range d.Sessions {
		rows = append(rows, []string{w.Name, w.State, w.BusyText(), w.Session, output.Since(w.Opened)})
	}
	s.Table("Workers", rows)
	for _, p := range d.Problems {
		s.Line("Problem", "%s %s   run: %s", p.Code, p.Message, p.Run)
	}
	s.Line("Next", "%s", strings.Join(d.next(), "   |   "))
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
	return next
}

// setText is who set the mode or the settings last.
func (d queueDetail) setText(now time.Time) string {
	if d.SetAt == nil {
		return ""
	}
	return fmt.Sprintf("    set by %s %s ago%s", d.SetBy, output.Age(now.Sub(*d.SetAt)), output.Why(d.SetWhy))
}
