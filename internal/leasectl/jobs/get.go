package jobs

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/workqueue"
)

func newJobsGet(a *cli.App) *cobra.Command {
	var o cli.ListOptions
	cmd := &cobra.Command{
		Use:   "get QUEUE/ID",
		Short: "Show one job, in JSON with everything that belongs to it",
		Long: `Show one job, wherever it is: live, dead, done or cancelled and still kept. JSON
has its payload, result, progress, checkpoint and the log of its attempts; bytes
that are no text are base64 in payload_base64 and so on.`,
		Example: `  leasectl jobs get mail/welcome-7
  leasectl jobs get mail/welcome-7 -o json`,
		Args: cli.Takes("QUEUE/ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := cli.ParseJobRef(args[0])
			if err != nil {
				return err
			}
			return cli.RunItem(cmd.Context(), a, o, cli.Lister[jobDetail]{
				View: detailColumns,
				Load: func(ctx context.Context, c *connect.Conn) ([]jobDetail, error) {
					return loadJob(ctx, a, c, ref)
				},
				Prefixes: func(keys keyspace.Keyspace) []string {
					q := keys.Queue(ref.Queue)
					return []string{q.Job(ref.ID), q.Done(ref.ID), q.Dead(ref.ID), q.Progress(ref.ID)}
				},
			})
		},
	}
	o.AddFlags(cmd)
	return cmd
}

var detailColumns = jobColumns(func(d jobDetail) *Item { return &d.Item })

func loadJob(ctx context.Context, a *cli.App, c *connect.Conn, ref cli.JobRef) ([]jobDetail, error) {
	j, err := getAlone(ctx, a, c, ref)
	if err != nil {
		return nil, err
	}
	return []jobDetail{detailOf(j)}, nil
}

// getAlone is Get on a queue that is opened for it.
func getAlone(ctx context.Context, a *cli.App, c *connect.Conn, ref cli.JobRef) (j *workqueue.Job, err error) {
	err = a.OnQueue(ctx, c, ref.Queue, func(q *workqueue.Queue) error {
		j, err = Get(ctx, a, q, ref)
		return err
	})
	return j, err
}

// Get reads one job, whole.
func Get(ctx context.Context, a *cli.App, q *workqueue.Queue, ref cli.JobRef) (*workqueue.Job, error) {
	ctx, cancel := a.Bounded(ctx)
	defer cancel()
	return q.Get(ctx, ref.ID)
}

// Print prints one job, as jobs get does.
func Print(a *cli.App, format string, j *workqueue.Job) error {
	return output.PrintItem(output.Printer{W: a.Out, Format: format}, detailColumns, detailOf(j))
}
