package leasectl

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/escape"
	"github.com/leasekit/leasekit/workqueue"
)

func newWorkersDescribe(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "describe WORKER",
		Short: "Show one session with its jobs, and what can be done next",
		Long: `Show one session with the jobs that it owns, and what can be done next. It is named
as for leasectl workers get.`,
		Example: `  leasectl workers describe w-7f31`,
		Args:    takes("WORKER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := a.format(describeFormats...)
			if err != nil {
				return err
			}
			return a.withEtcd(cmd.Context(), func(c *connection) error {
				d, err := loadWorkerDetail(cmd.Context(), a, c, args[0])
				if err != nil {
					return err
				}
				return printSheet(a.out, format, d, d.sheet())
			})
		},
	}
}

// workerDetail is a session with its jobs.
type workerDetail struct {
	workerItem
	Jobs []jobItem `json:"jobs"`
}

func loadWorkerDetail(ctx context.Context, a *app, c *connection, name string) (workerDetail, error) {
	w, err := findWorker(ctx, a, c, name)
	if err != nil {
		return workerDetail{}, err
	}
	d := workerDetail{workerItem: w, Jobs: []jobItem{}}
	sel := selection{named: true, filter: filter{terms: []filterTerm{
		{test: func(j *workqueue.Job, _ time.Time) bool { return j.Owner == w.Session }},
	}}}
	claimed := filterTerm{field: "state", states: []workqueue.State{workqueue.StateClaimed}}
	claimed.testStates()
	sel.filter.terms = append(sel.filter.terms, claimed)
	for _, q := range w.Queues {
		if q.Busy > 0 {
			sel.queues = append(sel.queues, q.Queue)
		}
	}
	jobs, err := loadJobs(ctx, a, c, sel, false)
	d.Jobs = append(d.Jobs, jobs...)
	return d, err
}

func (d workerDetail) sheet() *sheet {
	s := &sheet{}
	s.line("Worker", "%s    session %s", d.Name, d.Session)
	if d.State == workerLost {
		s.line("State", "%s: its session is gone; whoever serves the queue takes its jobs over", d.State)
	} else {
		s.line("State", "%s    lease %s    ttl %ds of %ds, as the leader of term %s counts", d.State, d.Lease, d.TTLLeft, d.TTL, d.Term)
	}
	if d.Host != "" {
		s.line("Process", "pid %d on %s    since %s", d.PID, d.Host, since(d.Opened))
	}
	for i, q := range d.Queues {
		label := ""
		if i == 0 {
			label = "Serves"
		}
		s.line(label, "%s", q.describe())
	}
	rows := [][]string{}
	for _, j := range d.Jobs {
		rows = append(rows, []string{jobRef{j.Queue, j.ID}.text(), j.Kind, string(j.State), "token " + j.Token, since(j.ClaimedAt)})
	}
	s.table("Jobs", rows)
	next := []string{"leasectl jobs ls --filter " + escape.Shell("worker:"+d.Session)}
	if len(d.Jobs) > 0 {
		next = append(next, "leasectl jobs describe "+escape.Shell(jobRef{d.Jobs[0].Queue, d.Jobs[0].ID}.text()))
	}
	if d.State != workerLost {
		next = append(next, "leasectl workers evict "+escape.Shell(d.Session))
	}
	s.line("Next", "%s", strings.Join(next, "   |   "))
	return s
}
