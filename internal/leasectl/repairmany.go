package leasectl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasekit/leasekit/workqueue"
)

// repairedItem is what became of one of many jobs, in JSON.
type repairedItem struct {
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
	repairDone     = "done"
	repairConflict = "conflict"
	repairFailed   = "failed"
)

// repairs is one repair of many jobs under way.
type repairs struct {
	a      *app
	r      repair
	q      *workqueue.Queue
	by     workqueue.By
	found  found
	format string
	quiet  bool // nothing of the jobs that are done

	halt    context.CancelFunc // begins no more
	items   []repairedItem
	skipped int
	done    int
	failure error // the first one that is no conflict
	told    time.Time
}

// runRepairs finds the jobs, shows them, asks, and acts on exactly those, each guarded by the revision that was shown.
func runRepairs(ctx context.Context, a *app, r repair, o repairOptions) error {
	format, err := a.format(resultFormats...)
	if err != nil {
		return err
	}
	return a.withQueue(ctx, o.many.queue, func(c *connection, q *workqueue.Queue) error {
		f, err := findMany(ctx, a, c, q, r, o.many)
		if err != nil {
			return err
		}
		f.say(a, c, o.many)
		if o.dryRun {
			a.notef("would %s %s", r.verb, countText(f.counts))
			return nil
		}
		if err := confirmMany(ctx, a, c, r, f, o); err != nil {
			return err
		}
		rs := &repairs{a: a, r: r, q: q, found: f, format: format, by: workqueue.By{Actor: actor(), Reason: o.reason, BreakClaim: r.breaks}}
		err = rs.run(ctx)
		if format == formatJSON {
			err = errors.Join(err, printList(printer{w: a.out, format: format}, view[repairedItem]{}, rs.items))
		}
		return err
	})
}

func confirmMany(ctx context.Context, a *app, c *connection, r repair, f found, o repairOptions) error {
	switch {
	case len(f.jobs) == 0:
		return nil
	case f.severe:
		statement := fmt.Sprintf("This %ss %s of queue %s in %s", r.verb, countText(f.counts), o.many.queue, c.where())
		return a.confirmTyped(ctx, &o.mutation, "queue name", o.many.queue, statement)
	}
	return a.confirm(ctx, &o.mutation, "%s %s", strings.ToUpper(r.verb[:1])+r.verb[1:], countText(f.counts))
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
			_, err = inOrder(going.Done(), len(part), repairsAtOnce, func(i int) repairedItem { return rs.one(steady, part[i]) }, rs.emit)
		}
	}
	return rs.verdict(ctx, err)
}

// one acts on one job.
func (rs *repairs) one(ctx context.Context, job foundJob) repairedItem {
	ctx, cancel := rs.a.bounded(ctx)
	defer cancel()
	by := rs.by
	by.Revision = job.rev
	item := repairedItem{ID: job.id, Queue: rs.q.Name(), Outcome: repairDone, Revision: fmt.Sprint(job.rev)}
	j, err := rs.r.do(ctx, rs.q, job.id, by)
	switch {
	case err == nil:
		item.Revision = fmt.Sprint(j.Revision)
	case errors.Is(err, workqueue.ErrConflict), errors.Is(err, workqueue.ErrNotApplicable), errors.Is(err, workqueue.ErrNotFound):
		item.Outcome = repairConflict
		item.Now = rs.now(ctx, job, err)
	default:
		item.Outcome, item.Error, item.err = repairFailed, errorText(err), err
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
		return errorText(why)
	case j.Owner != "":
		return fmt.Sprintf("now %s by %s (token %s)", j.State, j.Owner, j.Token)
	}
	return fmt.Sprintf("now %s (rev %d)", j.State, j.Revision)
}

// emit counts and prints what became of one job.
func (rs *repairs) emit(_ int, item repairedItem) error {
	ref := jobRef{item.Queue, item.ID}
	line, say := "", rs.a.notef // of what was not done, -o name says nothing on stdout
	if rs.format == formatTable && !rs.quiet {
		say = func(format string, args ...any) { line = fmt.Sprintf(format, args...) }
	}
	switch item.Outcome {
	case repairDone:
		rs.done++
		switch {
		case rs.quiet:
		case rs.format == formatName:
			line = ref.name()
		case rs.format == formatTable:
			line = fmt.Sprintf("%s %s (rev %s)", ref.name(), rs.r.past, item.Revision)
		}
	case repairConflict:
		rs.skipped++
		say("%s CONFLICT: %s; skipped", ref.name(), item.Now)
	default:
		rs.skipped++
		if rs.failure == nil { // the verdict tells it
			rs.failure = item.err
		} else {
			rs.a.notef("%s FAILED: %s; skipped", ref.name(), item.Error)
		}
		rs.halt() // it would be the same with the others
	}
	if rs.format == formatJSON {
		rs.items = append(rs.items, item)
	}
	rs.progress(rs.done + rs.skipped)
	if line == "" {
		return nil
	}
	return rs.a.printLine(line)
}

// progressEvery is how often the progress of many repairs is told.
const progressEvery = 2 * time.Second

func (rs *repairs) progress(n int) {
	if time.Since(rs.told) >= progressEvery && n < len(rs.found.jobs) {
		rs.told = time.Now()
		rs.a.notef("%d of %d jobs", n, len(rs.found.jobs))
	}
}

// verdict is the command's error, and what is told of the jobs that were not begun.
func (rs *repairs) verdict(ctx context.Context, err error) error {
	untouched := len(rs.found.jobs) - rs.done - rs.skipped
	tally := fmt.Sprintf("%d done", rs.done)
	if rs.skipped > 0 {
		tally += fmt.Sprintf(", %d skipped", rs.skipped)
	}
	if untouched > 0 {
		tally += fmt.Sprintf(", %d not begun", untouched)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", tally, err)
	case untouched > 0 && ctx.Err() != nil:
		rs.a.notef("%s", tally)
		return context.Cause(ctx)
	case rs.failure != nil && rs.done == 0:
		return fmt.Errorf("%s; %w", tally, rs.failure)
	case rs.failure != nil:
		return &failure{code: exitPartly, err: fmt.Errorf("%s; %w", tally, rs.failure)}
	case rs.skipped > 0:
		return &failure{code: exitPartly, err: errors.New(tally), try: "the same command: it looks at what has moved anew"}
	}
	rs.a.notef("%s", tally)
	return nil
}
