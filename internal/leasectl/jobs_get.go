package leasectl

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/workqueue"
)

func newJobsGet(a *app) *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:   "get QUEUE/ID",
		Short: "Show one job, in JSON with everything that belongs to it",
		Long: `Show one job, wherever it is: live, dead, done or cancelled and still kept. JSON
has its payload, result, progress, checkpoint and the log of its attempts; bytes
that are no text are base64 in payload_base64 and so on.`,
		Example: `  leasectl jobs get mail/welcome-7
  leasectl jobs get mail/welcome-7 -o json`,
		Args: takes("QUEUE/ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := parseJobRef(args[0])
			if err != nil {
				return err
			}
			return runItem(cmd.Context(), a, o, lister[jobDetail]{
				view: detailColumns,
				load: func(ctx context.Context, c *connection) ([]jobDetail, error) {
					return loadJob(ctx, a, c, ref)
				},
				prefixes: func(keys keyspace.Keyspace) []string {
					q := keys.Queue(ref.queue)
					return []string{q.Job(ref.id), q.Done(ref.id), q.Dead(ref.id), q.Progress(ref.id)}
				},
			})
		},
	}
	o.addFlags(cmd)
	return cmd
}

var detailColumns = jobColumns(func(d jobDetail) *jobItem { return &d.jobItem })

func loadJob(ctx context.Context, a *app, c *connection, ref jobRef) ([]jobDetail, error) {
	q, err := a.openQueue(ctx, c, ref.queue, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = q.Close() }() // nothing was written
	j, err := getJob(ctx, a, q, ref)
	if err != nil {
		return nil, err
	}
	return []jobDetail{detailOf(j)}, nil
}

func getJob(ctx context.Context, a *app, q *workqueue.Queue, ref jobRef) (*workqueue.Job, error) {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	return q.Get(ctx, ref.id)
}

func printJob(a *app, format string, j *workqueue.Job) error {
	return printItem(printer{w: a.out, format: format}, detailColumns, detailOf(j))
}
