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

// Tally is what became of many jobs.
type Tally struct {
	Done, Skipped int
	Failure       error      // the first one that is no conflict
	Items         []Repaired // each of them, where the format is JSON
}

// repairs is one repair of many jobs under way.
type repairs struct {
	a      *cli.App
	r      Repair
	q      *workqueue.Queue
	by     workqueue.By
	found  Found
	format string
	quiet  bool // nothing of the jobs that are done

	Tally
	halt context.CancelFunc // begins no more
	told time.Time
}

// Act does the repair to exactly the jobs that were found, and prints nothing of those that are done.
func (r Repair) Act(ctx context.Context, a *cli.App, q *workqueue.Queue, f Found, format, reason string) (Tally, error) {
	rs := &repairs{a: a, r: r, q: q, found: f, format: format, quiet: true, by: r.by(reason)}
	err := rs.run(ctx)
	return rs.Tally, err
}

func (r Repair) by(reason string) workqueue.By {
	return workqueue.By{Actor: cli.Actor(), Reason: reason, BreakClaim: r.breaks}
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
			a.Notef("would %s %s", r.verb, f.Text())
			return nil
		}
		if err := confirmMany(ctx, a, c, r, f, o); err != nil {
			return err
		}
		rs := &repairs{a: a, r: r, q: q, found: f, format: format, by: r.by(o.Reason)}
		err = rs.run(ctx)
		if format == output.JSON {
			err = errors.Join(err, output.PrintList(output.Printer{W: a.Out, Format: format}, output.View[Repaired]{}, rs.Items))
		}
		return err
	})
}

func confirmMany(ctx context.Context, a *cli.App, c *connect.Conn, r Repair, f Found, o repairOptions) error {
	switch {
	case len(f.jobs) == 0:
		return nil
	case f.severe:
		statement := fmt.Sprintf("This %ss %s of queue %s in %s", r.verb, f.Text(), o.many.Queue, c.Where())
		return a.ConfirmTyped(ctx, &o.Mutation, "queue name", o.many.Queue, statement)
	}
	return a.Confirm(ctx, &o.Mutation, "%s %s", strings.ToUpper(r.verb[:1])+r.verb[1:], f.Text())
}

// run acts on the jobs: on the first one alone, so that what would go wrong with all of them goes wrong once. A signal
// ends it between two of them: what is under way is carried to its end, so that nobody has to ask what happened to it.
func (rs *repairs) run(ctx context.Context) error {
	going, halt := context.WithCancel(ctx)
	defer halt()
	rs.halt, rs.told = halt, time.Now()
	steady := context.WithoutCancel(ctx)
	jobs := rs.found.jobs
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
func (rs *repairs) one(ctx context.Context, job foundJob) Repaired {
	ctx, cancel := rs.a.Bounded(ctx)
	defer cancel()
	by := rs.by
	by.Revision = job.rev
	item := Repaired{ID: job.id, Queue: rs.q.Name(), Outcome: Done, Revision: fmt.Sprint(job.rev)}
	j, err := rs.r.do(ctx, rs.q, job.id, by)
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
func (rs *repairs) now(ctx context.Context, job foundJob, why error) string {
	j, err := rs.q.Get(ctx, job.id)
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
func (rs *repairs) emit(_ int, item Repaired) error {
	ref := cli.JobRef{Queue: item.Queue, ID: item.ID}
	line, say := "", rs.a.Notef // of what was not done, -o name says nothing on stdout
	if rs.format == output.Table && !rs.quiet {
		say = func(format string, args ...any) { line = fmt.Sprintf(format, args...) }
	}
	switch item.Outcome {
	case Done:
		rs.Done++
		switch {
		case rs.quiet:
		case rs.format == output.Name:
			line = ref.Name()
		case rs.format == output.Table:
			line = fmt.Sprintf("%s %s (rev %s)", ref.Name(), rs.r.past, item.Revision)
		}
	case repairConflict:
		rs.Skipped++
		say("%s CONFLICT: %s; skipped", ref.Name(), item.Now)
	default:
		rs.Skipped++
		if rs.Failure == nil { // the verdict tells it
			rs.Failure = item.err
		} else {
			rs.a.Notef("%s FAILED: %s; skipped", ref.Name(), item.Error)
		}
		rs.halt() // it would be the same with the others
	}
	if rs.format == output.JSON {
		rs.Items = append(rs.Items, item)
	}
	rs.progress(rs.Done + rs.Skipped)
	if line == "" {
		return nil
	}
	return rs.a.PrintLine(line)
}

// progressEvery is how often the progress of many repairs is told.
const progressEvery = 2 * time.Second

func (rs *repairs) progress(n int) {
	if time.Since(rs.told) >= progressEvery && n < len(rs.found.jobs) {
		rs.told = time.Now()
		rs.a.Notef("%d of %d jobs", n, len(rs.found.jobs))
	}
}

// verdict is the command's error, and what is told of the jobs that were not begun.
func (rs *repairs) verdict(ctx context.Context, err error) error {
	untouched := len(rs.found.jobs) - rs.Done - rs.Skipped
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
		rs.a.Notef("%s", tally)
		return context.Cause(ctx)
	case rs.Failure != nil && rs.Done == 0:
		return fmt.Errorf("%s; %w", tally, rs.Failure)
	case rs.Failure != nil:
		return &exit.Error{Code: exit.Partly, Err: fmt.Errorf("%s; %w", tally, rs.Failure)}
	case rs.Skipped > 0:
		return &exit.Error{Code: exit.Partly, Err: errors.New(tally), Try: "the same command: it looks at what has moved anew"}
	}
	rs.a.Notef("%s", tally)
	return nil
}
