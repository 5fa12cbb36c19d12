package leasectl

import (
	"context"

	"github.com/leasekit/leasekit/workqueue"
	"github.com/spf13/cobra"
)

func newJobsGet(a *app) *cobra.Command {
	return &cobra.Command{
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
			format, err := a.format(allFormats...)
			if err != nil {
				return err
			}
			return a.withQueue(cmd.Context(), ref.queue, func(_ *connection, q *workqueue.Queue) error {
				j, err := a.getJob(cmd.Context(), q, ref)
				if err != nil {
					return err
				}
				return a.printJob(format, j)
			})
		},
	}
}

func (a *app) getJob(ctx context.Context, q *workqueue.Queue, ref jobRef) (*workqueue.Job, error) {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	return q.Get(ctx, ref.id)
}

func (a *app) printJob(format string, j *workqueue.Job) error {
	return printItem(a.out, format, jobColumns(func(d jobDetail) *jobItem { return &d.jobItem }), detailOf(j))
}
