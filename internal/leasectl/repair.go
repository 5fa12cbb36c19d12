package leasectl

import (
	"context"
	"fmt"
	"strconv"

	"github.com/leasekit/leasekit/workqueue"
	"github.com/spf13/cobra"
)

// repair is an action on one job, on somebody's behalf.
type repair struct {
	verb, past string
	able       func(*workqueue.Job) bool
	do         func(context.Context, *workqueue.Queue, string, workqueue.By) (*workqueue.Job, error)
}

// repairOptions are the flags of every repair.
type repairOptions struct {
	mutation
	revision int64
}

// newRepair completes the command of a repair.
func newRepair(a *app, r repair, cmd *cobra.Command) *cobra.Command {
	var o repairOptions
	cmd.Args = takes("QUEUE/ID")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ref, err := parseJobRef(args[0])
		if err != nil {
			return err
		}
		if cmd.Flags().Changed("revision") && o.revision <= 0 {
			return usagef("leasectl jobs get "+args[0]+" -o json", "--revision is %d: it must be positive", o.revision)
		}
		return a.runRepair(cmd.Context(), r, ref, o)
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().Int64Var(&o.revision, "revision", 0, "only if the job is still at revision `REV`, as jobs get shows it")
	return cmd
}

// runRepair looks at the job, says what it found and where, and acts only on exactly that: the action is guarded by the
// revision that was shown. One job needs no question.
func (a *app) runRepair(ctx context.Context, r repair, ref jobRef, o repairOptions) error {
	format, err := a.format(resultFormats...)
	if err != nil {
		return err
	}
	return a.withQueue(ctx, ref.queue, func(c *connection, q *workqueue.Queue) error {
		seen, err := a.getJob(ctx, q, ref)
		if err != nil {
			return err
		}
		rev := seen.Revision
		if o.revision != 0 {
			rev = o.revision // the library refuses when that is not the one seen
		}
		would := ""
		if o.dryRun {
			would = "would "
		}
		a.notef("%s: %s%s %s (%s, revision %d)", c.where(), would, r.verb, ref.name(), seen.State, seen.Revision)
		if o.dryRun {
			return dryRepair(r, seen, rev)
		}
		ctx, cancel := a.bounded(ctx)
		defer cancel()
		j, err := r.do(ctx, q, ref.id, workqueue.By{Actor: actor(), Reason: o.reason, Revision: rev})
		if err != nil {
			return err
		}
		return a.printRepaired(ctx, format, r, q, ref, j)
	})
}

// dryRepair returns the error that the repair would end with, as far as it can be known without trying.
func dryRepair(r repair, seen *workqueue.Job, rev int64) error {
	if seen.Revision != rev {
		return fmt.Errorf("%s job %s: %w: it is at revision %d, not %d", r.verb, seen.ID, workqueue.ErrConflict, seen.Revision, rev)
	}
	return applicable(r.verb, seen, r.able(seen))
}

func (a *app) printRepaired(ctx context.Context, format string, r repair, q *workqueue.Queue, ref jobRef, j *workqueue.Job) error {
	switch format {
	case formatName:
		return a.printLine(ref.name())
	case formatJSON:
		if now, err := q.Get(ctx, ref.id); err == nil {
			j = now // with its payload
		}
		return a.printJob(format, j)
	}
	return a.printLine(ref.name() + " " + r.past + " (revision " + strconv.FormatInt(j.Revision, 10) + ")")
}
