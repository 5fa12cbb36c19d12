package jobs

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/workqueue"
)

// Repair is an action on one job, or on each of many, on somebody's behalf.
type Repair struct {
	verb, past string
	Able       func(*workqueue.Job) bool
	do         func(context.Context, *workqueue.Queue, string, workqueue.By) (*workqueue.Job, error)

	// bulk lets a selection stand in place of QUEUE/ID.
	bulk bool
	// Spare tells which of many jobs are left alone, beside those that able refuses; for one job the library says why.
	Spare func(*workqueue.Job) bool
	// severe tells of a job that taking it away is for good: its name has to be typed.
	severe func(*workqueue.Job) bool
	// object is what more is said of the action, such as where a job goes.
	object string
	// prepare, where it is there, looks at the job before anything is written, and may take its time.
	prepare func(context.Context, *workqueue.Job) error
	// hint finds a better way out of an error than the table of package exit does.
	hint func(cli.JobRef, error) string
	// breaks lets the action take a claimed job from its owner.
	breaks bool
}

// repairOptions are the flags of every repair.
type repairOptions struct {
	cli.Mutation
	revision int64
	many     Many
}

// newRepair completes the command of a repair.
func newRepair(a *cli.App, r Repair, cmd *cobra.Command) *cobra.Command {
	shape := repairShape{bulk: r.bulk, bind: func(*cobra.Command, []string) (Repair, error) { return r, nil }}
	return newRepairOf(a, shape, cmd)
}

// repairShape is what the command of a repair takes.
type repairShape struct {
	// bulk lets a selection stand in place of QUEUE/ID.
	bulk bool
	// more are the arguments behind QUEUE/ID.
	more []string
	// traceless repairs leave nothing that a reason could be kept with.
	traceless bool
	// bind makes the repair, of flags and arguments.
	bind func(cmd *cobra.Command, args []string) (Repair, error)
}

// newRepairOf is newRepair for a repair that hangs on flags and arguments.
func newRepairOf(a *cli.App, s repairShape, cmd *cobra.Command) *cobra.Command {
	var o repairOptions
	cmd.Args = cli.Takes(append([]string{"QUEUE/ID"}, s.more...)...)
	if s.bulk {
		cmd.Args = cli.Takes("[QUEUE/ID]")
		o.many.addFlags(cmd)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if s.bulk && o.many.asked(cmd) {
			if err := o.many.parse(cmd, args); err != nil {
				return err
			}
			if len(o.Reason) > cli.MaxReason { // once, instead of once per job
				return exit.Usagef("fewer words", "--reason has %d bytes, at most %d are kept", len(o.Reason), cli.MaxReason)
			}
			r, err := s.bind(cmd, args)
			if err != nil {
				return err
			}
			return runRepairs(cmd.Context(), a, r, o)
		}
		if len(args) == 0 { // takes has let it pass
			return exit.Usagef(cli.HelpOf(cmd), "%sQUEUE/ID is missing, or --queue with --state, --filter or --all", cli.VerbPrefix(cmd))
		}
		ref, err := cli.ParseJobRef(args[0])
		if err != nil {
			return err
		}
		if cmd.Flags().Changed("revision") && o.revision <= 0 {
			return exit.Usagef("leasectl jobs get "+escape.Shell(args[0])+" -o json", "--revision is %d: it must be positive", o.revision)
		}
		r, err := s.bind(cmd, args)
		if err != nil {
			return err
		}
		return runRepair(cmd.Context(), a, r, ref, o)
	}
	if s.traceless {
		o.AddTracelessFlags(cmd.Flags())
	} else {
		o.AddFlags(cmd.Flags())
	}
	cmd.Flags().Int64Var(&o.revision, "revision", 0, "only if the job is still at revision `REV`, as jobs get shows it")
	return cmd
}

// runRepair looks at the job, says what it found and where, and acts only on exactly that: the action is guarded by the
// revision that was shown. One job needs no question, unless what is done to it is severe.
func runRepair(ctx context.Context, a *cli.App, r Repair, ref cli.JobRef, o repairOptions) error {
	format, err := a.Format(output.ResultFormats...)
	if err != nil {
		return err
	}
	return a.WithQueue(ctx, ref.Queue, func(c *connect.Conn, q *workqueue.Queue) error {
		seen, err := Get(ctx, a, q, ref)
		if err != nil {
			return err
		}
		rev := seen.Revision
		if o.revision != 0 {
			rev = o.revision // the library refuses when that is not the one seen
		}
		a.Notef("%s: %s%s %s%s (%s, revision %d)", c.Where(), o.Would(), r.verb, ref.Name(), r.object, standing(seen), seen.Revision)
		if err := r.check(seen, rev); err != nil {
			return r.hinted(ref, err)
		}
		if r.prepare != nil {
			if err := r.prepare(ctx, seen); err != nil {
				return err
			}
		}
		if r.severe != nil && r.severe(seen) {
			statement := fmt.Sprintf("This %ss %s, which is %s, in %s", r.verb, ref.Name(), seen.State, c.Where())
			if err := a.ConfirmTyped(ctx, &o.Mutation, "job's QUEUE/ID", ref.Text(), statement); err != nil {
				return err
			}
		}
		if o.DryRun {
			return nil
		}
		ctx, cancel := a.Bounded(ctx)
		defer cancel()
		j, err := r.do(ctx, q, ref.ID, workqueue.By{Actor: cli.Actor(), Reason: o.Reason, Revision: rev, BreakClaim: r.breaks})
		if err != nil {
			return r.hinted(ref, err)
		}
		return output.Told(cli.NameOf(j)+" "+r.past, printRepaired(ctx, a, format, r, q, j))
	})
}

// standing is the state of a job, and whose it is.
func standing(j *workqueue.Job) string {
	if j.Owner == "" {
		return string(j.State)
	}
	return string(j.State) + " by " + j.Owner
}

// check returns the error that the repair would end with, as far as it can be known without trying.
func (r Repair) check(seen *workqueue.Job, rev int64) error {
	if seen.Revision != rev {
		return fmt.Errorf("%s job %s: %w: it is at revision %d, not %d", r.verb, seen.ID, workqueue.ErrConflict, seen.Revision, rev)
	}
	return applicable(r.verb, seen, r.Able(seen))
}

// hinted adds the way out that the repair knows.
func (r Repair) hinted(ref cli.JobRef, err error) error {
	if r.hint == nil || err == nil {
		return cli.About(ref, err)
	}
	if try := r.hint(ref, err); try != "" {
		return &exit.Error{Err: err, Try: try}
	}
	return cli.About(ref, err)
}

func printRepaired(ctx context.Context, a *cli.App, format string, r Repair, q *workqueue.Queue, j *workqueue.Job) error {
	switch format {
	case output.Name:
		return a.PrintLine(cli.NameOf(j))
	case output.JSON:
		if now, err := q.Get(ctx, j.ID); err == nil && now.Revision == j.Revision {
			j = now // with its payload
		}
		return Print(a, format, j)
	}
	return a.PrintLine(cli.NameOf(j) + " " + r.past + " (revision " + strconv.FormatInt(j.Revision, 10) + ")")
}

// claimedHint is the way out for who meets a claimed job.
func claimedHint(verb string) func(cli.JobRef, error) string {
	return func(ref cli.JobRef, err error) string {
		if errors.Is(err, workqueue.ErrNotApplicable) {
			return "leasectl jobs get " + escape.Shell(ref.Text()) + ", then " + verb + " with --break-claim if it is claimed and its owner may be fenced"
		}
		return ""
	}
}

// applicable returns the error that the library would return for an action that the job's state forbids.
func applicable(verb string, j *workqueue.Job, ok bool) error {
	if ok {
		return nil
	}
	return fmt.Errorf("%s job %s: %w: it is %s", verb, j.ID, workqueue.ErrNotApplicable, j.State)
}
