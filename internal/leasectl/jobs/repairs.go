package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/workqueue"
)

// Repaired is what became of one of many jobs, in JSON.
type Repaired struct {
	ID       string `json:"id"`
	Queue    string `json:"queue"`
	Outcome  string `json:"outcome"`         // done, conflict: it has moved since it was listed, or failed
	Revision string `json:"revision"`        // of the job then; as it was listed, unless it was done
	Now      string `json:"now,omitempty"`   // where a job stands that has moved
	Error    string `json:"error,omitempty"` // why it failed

	err error
}

// The outcomes of one of many.
const (
	Done           = "done"
	repairConflict = "conflict"
	repairFailed   = "failed"
)

// Repairs is one repair of many jobs under way.
type Repairs struct {
	A      *cli.App
	R      Repair
	Q      *workqueue.Queue
	By     workqueue.By
	Found  Found
	Format string
	Quiet  bool // nothing of the jobs that are done

	halt    context.CancelFunc // begins no more
	Items   []Repaired
	Skipped int
	Done    int
	Failure error // the first one that is no conflict
	told    time.Time
}

// runRepairs finds the jobs, shows them, asks, and acts on exactly those, each guarded by the revision that was shown.
func runRepairs(ctx context.Context, a *cli.App, r Repair, o repairOptions) error {
	format, err := a.Format(output.ResultFormats...)
	if err != nil {
		return err
	}
	return a.WithQueue(ctx, o.many.Queue, func(c *connect.Conn, q *workqueue.Queue) error {
		f, err := Find(ctx, a, c, q, r, o.many)
		if err != nil {
			return err
		}
		f.say(a, c, o.many)
		if o.DryRun {
			a.Notef("would %s %s", r.verb, CountText(f.Counts))
			return nil
		}
		if err := confirmMany(ctx, a, c, r, f, o); err != nil {
			return err
		}
		rs := &Repairs{A: a, R: r, Q: q, Found: f, Format: format, By: workqueue.By{Actor: cli.Actor(), Reason: o.Reason, BreakClaim: r.Breaks}}
		err = rs.Run(ctx)
		if format == output.JSON {
			err = errors.Join(err, output.PrintList(output.Printer{W: a.Out, Format: format}, output.View[Repaired]{}, rs.Items))
		}
		return err
	})
}

func confirmMany(ctx context.Context, a *cli.App, c *connect.Conn, r Repair, f Found, o repairOptions) error {
	switch {
	case len(f.Jobs) == 0:
		return nil
	case f.severe:
		statement := fmt.Sprintf("This %ss %s of queue %s in %s", r.verb, CountText(f.Counts), o.many.Queue, c.Where())
		return a.ConfirmTyped(ctx, &o.Mutation, "queue name", o.many.Queue, statement)
	}
	return a.Confirm(ctx, &o.Mutation, "%s %s", strings.ToUpper(r.verb[:1])+r.verb[1:], CountText(f.Counts))
}

// Run acts on the jobs: on the first one alone, so that what would go wrong with all of them goes wrong once. A signal
// ends it between two of them: what is under way is carried to its end, so that nobody has to ask what happened to it.
func (rs *Repairs) Run(ctx context.Context) error {
	going, halt := context.WithCancel(ctx)
	defer halt()
	rs.halt, rs.told = halt, time.Now()
	steady := context.WithoutCancel(ctx)
	jobs := rs.Found.Jobs
	first := min(len(jobs), 1)
	var err error
	for _, part := range [][]foundJob{jobs[:first], jobs[first:]} {
		if err == nil {
			_, err = cli.InOrder(going.Done(), len(part), cli.AtOnce, func(i int) Repaired { return rs.one(steady, part[i]) }, rs.emit)
		}
	}
	return rs.verdict(ctx, err)
}

// one acts on one job.
func (rs *Repairs) one(ctx context.Context, job foundJob) Repaired {
	ctx, cancel := rs.A.Bounded(ctx)
	defer cancel()
	by := rs.By
	by.Revision = job.rev
	item := Repaired{ID: job.id, Queue: rs.Q.Name(), Outcome: Done, Revision: fmt.Sprint(job.rev)}
	j, err := rs.R.do(ctx, rs.Q, job.id, by)
	switch {
	case err == nil:
		item.Revision = fmt.Sprint(j.Revision)
	case errors.Is(err, workqueue.ErrConflict), errors.Is(err, workqueue.ErrNotApplicable), errors.Is(err, workqueue.ErrNotFound):
		item.Outcome = repairConflict
		item.Now = rs.now(ctx, job, err)
	default:
		item.Outcome, item.Error, item.err = repairFailed, exit.Text(err), err
	}
	return item
}

// now tells where a job stands that has moved.
func (rs *Repairs) now(ctx context.Context, job foundJob, why error) string {
	j, err := rs.Q.Get(ctx, job.id)
	switch {
	case errors.Is(err, workqueue.ErrNotFound):
		return "now gone"
	case err != nil || j.Revision == job.rev:
		return exit.Text(why)
	case j.Owner != "":
		return fmt.Sprintf("now %s by %s (token %s)", j.State, j.Owner, j.Token)
	}
	return fmt.Sprintf("now %s (rev %d)", j.State, j.Revision)
}

// emit counts and prints what became of one job.
func (rs *Repairs) emit(_ int, item Repaired) error {
	ref := cli.JobRef{Queue: item.Queue, ID: item.ID}
	line, say := "", rs.A.Notef // of what was not done, -o name says nothing on stdout
	if rs.Format == output.Table && !rs.Quiet {
		say = func(format string, args ...any) { line = fmt.Sprintf(format, args...) }
	}
	switch item.Outcome {
	case Done:
		rs.Done++
		switch {
		case rs.Quiet:
		case rs.Format == output.Name:
			line = ref.Name()
		case rs.Format == output.Table:
			line = fmt.Sprintf("%s %s (rev %s)", ref.Name(), rs.R.past, item.Revision)
		}
	case repairConflict:
		rs.Skipped++
		say("%s CONFLICT: %s; skipped", ref.Name(), item.Now)
	default:
		rs.Skipped++
		if rs.Failure == nil { // the verdict tells it
			rs.Failure = item.err
		} else {
			rs.A.Notef("%s FAILED: %s; skipped", ref.Name(), item.Error)
		}
		rs.halt() // it would be the same with the others
	}
	if rs.Format == output.JSON {
		rs.Items = append(rs.Items, item)
	}
	rs.progress(rs.Done + rs.Skipped)
	if line == "" {
		return nil
	}
	return rs.A.PrintLine(line)
}

// progressEvery is how often the progress of many repairs is told.
const progressEvery = 2 * time.Second

func (rs *Repairs) progress(n int) {
	if time.Since(rs.told) >= progressEvery && n < len(rs.Found.Jobs) {
		rs.told = time.Now()
		rs.A.Notef("%d of %d jobs", n, len(rs.Found.Jobs))
	}
}

// verdict is the command's error, and what is told of the jobs that were not begun.
func (rs *Repairs) verdict(ctx context.Context, err error) error {
	untouched := len(rs.Found.Jobs) - rs.Done - rs.Skipped
	tally := fmt.Sprintf("%d done", rs.Done)
	if rs.Skipped > 0 {
		tally += fmt.Sprintf(", %d skipped", rs.Skipped)
	}
	if untouched > 0 {
		tally += fmt.Sprintf(", %d not begun", untouched)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", tally, err)
	case untouched > 0 && ctx.Err() != nil:
		rs.A.Notef("%s", tally)
		return context.Cause(ctx)
	case rs.Failure != nil && rs.Done == 0:
		return fmt.Errorf("%s; %w", tally, rs.Failure)
	case rs.Failure != nil:
		return &exit.Error{Code: exit.Partly, Err: fmt.Errorf("%s; %w", tally, rs.Failure)}
	case rs.Skipped > 0:
		return &exit.Error{Code: exit.Partly, Err: errors.New(tally), Try: "the same command: it looks at what has moved anew"}
	}
	rs.A.Notef("%s", tally)
	return nil
}
