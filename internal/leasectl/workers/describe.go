package workers

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/filter"
	"github.com/leasekit/leasekit/internal/leasectl/jobs"
	"github.com/leasekit/leasekit/internal/leasectl/look"
	"github.com/leasekit/leasekit/internal/leasectl/output"
)

func newWorkersDescribe(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "describe WORKER",
		Short: "Show one session with its jobs, and what can be done next",
		Long: `Show one session with the jobs that it owns, and what can be done next. It is named
as for leasectl workers get.`,
		Example: `  leasectl workers describe w-7f31`,
		Args:    cli.Takes("WORKER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := a.Format(output.DescribeFormats...)
			if err != nil {
				return err
			}
			return a.WithEtcd(cmd.Context(), func(c *connect.Conn) error {
				d, err := loadWorkerDetail(cmd.Context(), a, c, args[0])
				if err != nil {
					return err
				}
				return output.PrintSheet(a.Out, format, d, d.sheet())
			})
		},
	}
}

// workerDetail is a session with its jobs.
type workerDetail struct {
	look.Worker
	Jobs []jobs.Item `json:"jobs"`
}

func loadWorkerDetail(ctx context.Context, a *cli.App, c *connect.Conn, name string) (workerDetail, error) {
	w, err := findWorker(ctx, a, c, name)
	if err != nil {
		return workerDetail{}, err
	}
	d := workerDetail{Worker: w, Jobs: []jobs.Item{}}
	var busy []string
	for _, q := range w.Queues {
		if q.Busy > 0 {
			busy = append(busy, q.Queue)
		}
	}
	owned, err := jobs.Load(ctx, a, c, filter.ClaimedBy(w.Session, busy), false)
	d.Jobs = append(d.Jobs, owned...)
	return d, err
}

func (d workerDetail) sheet() *output.Sheet {
	s := &output.Sheet{}
	s.Line("Worker", "%s    session %s", d.Name, d.Session)
	if d.State == look.WorkerLost {
		s.Line("State", "%s: its session is gone; whoever serves the queue takes its jobs over", d.State)
	} else {
		s.Line("State", "%s    lease %s    ttl %ds of %ds, as the leader of term %s counts", d.State, d.Lease, d.TTLLeft, d.TTL, d.Term)
	}
	if d.Host != "" {
		s.Line("Process", "pid %d on %s    since %s", d.PID, d.Host, output.Since(d.Opened))
	}
	for i, q := range d.Queues {
		label := ""
		if i == 0 {
			label = "Serves"
		}
		s.Line(label, "%s", q.Describe())
	}
	rows := [][]string{}
	for _, j := range d.Jobs {
		rows = append(rows, []string{cli.JobRef{Queue: j.Queue, ID: j.ID}.Text(), j.Kind, string(j.State), "token " + j.Token, output.Since(j.ClaimedAt)})
	}
	s.Table("Jobs", rows)
	next := []string{"leasectl jobs ls --filter " + escape.Shell("worker:"+d.Session)}
	if len(d.Jobs) > 0 {
		next = append(next, "leasectl jobs describe "+escape.Shell(cli.JobRef{Queue: d.Jobs[0].Queue, ID: d.Jobs[0].ID}.Text()))
	}
	if d.State != look.WorkerLost {
		next = append(next, "leasectl workers evict "+escape.Shell(d.Session))
	}
	s.Line("Next", "%s", strings.Join(next, "   |   "))
	return s
}
