// Package status is leasectl status: the whole on one screen.
package status

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/claims"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/look"
	"github.com/leasekit/leasekit/internal/leasectl/output"
)

// New is leasectl status.
func New(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show etcd, queues, workers, leaders and problems on one screen",
		Long: `Show on one screen how etcd is, what is in the queues, who works and who leads, what
happened in the last 5 minutes, and problems with the command that helps; the full
list of checks is leasectl doctor. What happened is counted from what is kept: the
line says how far back that reaches where finished jobs had to make room.

What is shown was confirmed by a majority of etcd's members. Without one the screen
says unverified, and the exit code is 6.`,
		Example: `  leasectl status
  leasectl status -o json | jq .problems`,
		GroupID: cli.GroupLook,
		Args:    cli.Takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			format, err := a.Format(output.DescribeFormats...)
			if err != nil {
				return err
			}
			return runStatus(cmd.Context(), a, format)
		},
	}
}

func runStatus(ctx context.Context, a *cli.App, format string) error {
	c, err := a.Connect(ctx)
	if exit.Code(err) == exit.Unreachable {
		return unverifiedStatus(ctx, a, format, err)
	}
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	st, err := loadStatus(ctx, a, c)
	if err != nil {
		return a.Denied(ctx, c, err)
	}
	return printStatus(a, format, st)
}

// statusItem is everything on the screen.
type statusItem struct {
	Verified bool           `json:"verified"` // a majority of etcd's members has confirmed it
	Context  string         `json:"context"`
	Root     string         `json:"root"`
	Etcd     etcdItem       `json:"etcd"`
	Jobs     jobCounts      `json:"jobs"`
	Workers  workerCounts   `json:"workers"`
	Leaders  []claims.Item  `json:"leaders"`
	Recent   look.Recent    `json:"recent"`
	Queues   []look.Queue   `json:"queues"`
	Problems []look.Problem `json:"problems"`
}

// jobCounts are the jobs of all queues.
type jobCounts struct {
	Ready       int        `json:"ready"`
	Scheduled   int        `json:"scheduled"`
	Claimed     int        `json:"claimed"` // orphans too
	Orphan      int        `json:"orphan"`
	Retry       int        `json:"retry"`
	Dead        int        `json:"dead"`
	Done        int        `json:"done"`
	Oldest      *time.Time `json:"oldest_ready_at,omitempty"`
	OldestQueue string     `json:"oldest_ready_queue,omitempty"`
}

// workerCounts are the sessions that serve queues or own jobs.
type workerCounts struct {
	Live        int `json:"live"`
	Lost        int `json:"lost"`
	Busy        int `json:"busy"`
	Concurrency int `json:"concurrency"`
}

func loadStatus(ctx context.Context, a *cli.App, c *connect.Conn) (statusItem, error) {
	st := statusItem{Verified: true, Context: a.Settings.Context, Root: c.Root, Leaders: []claims.Item{}, Queues: []look.Queue{}}
	st.Etcd = readEtcd(ctx, c.Client, c.Endpoints)
	queues, broken, err := look.ReadQueues(ctx, a, c)
	if err != nil {
		return st, err
	}
	st.Queues = append(st.Queues, queues...)
	workers, err := look.ReadWorkers(ctx, a, c, queues)
	if err != nil {
		return st, err
	}
	elections, err := claims.Elections(ctx, a, c.Store())
	if err != nil {
		return st, err
	}
	for _, e := range elections {
		if e.Owner != "" {
			st.Leaders = append(st.Leaders, e)
		}
	}
	st.sum(workers, time.Now())
	st.Problems = append(st.Problems, look.BrokenConfigs(broken)...)
	return st, nil
}

// sum adds up what queues and workers say.
func (st *statusItem) sum(workers []look.Worker, now time.Time) {
	st.Problems = look.Problems(st.Queues, now)
	st.Recent = look.Recent{Since: now.Add(-look.Recently).UTC().Truncate(time.Millisecond)}
	for _, q := range st.Queues {
		j := &st.Jobs
		j.Ready, j.Scheduled, j.Retry = j.Ready+q.Ready, j.Scheduled+q.Scheduled, j.Retry+q.Retry
		j.Claimed, j.Orphan = j.Claimed+q.Claimed+q.Orphan, j.Orphan+q.Orphan
		j.Dead, j.Done = j.Dead+q.Dead, j.Done+q.Done
		if q.Oldest != nil && (j.Oldest == nil || q.Oldest.Before(*j.Oldest)) {
			j.Oldest, j.OldestQueue = q.Oldest, q.Name
		}
		st.Recent.Add(q.Recent)
	}
	for _, w := range workers {
		switch {
		case w.State == look.WorkerLost:
			st.Workers.Lost++
		case len(w.Queues) > 0:
			st.Workers.Live++
			st.Workers.Busy, st.Workers.Concurrency = st.Workers.Busy+w.Busy, st.Workers.Concurrency+w.Concurrency
		}
	}
}
