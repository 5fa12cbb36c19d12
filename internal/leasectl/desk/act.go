package desk

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/filter"
	"github.com/leasekit/leasekit/internal/leasectl/jobs"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/internal/leasectl/top"
	"github.com/leasekit/leasekit/workqueue"
)

const (
	// topJobs is how many jobs the screen lists.
	topJobs = 200
	// topReason is kept with what was done from the screen.
	topReason = "leasectl top"
)

var _ top.Cluster = (*topDesk)(nil)

func topSelection(queue, text string) (filter.Selection, error) {
	s := filter.Selection{Text: text, Limit: topJobs, Limited: true}
	return s, s.Parse([]string{queue})
}

// Check implements [top.Cluster].
func (d *topDesk) Check(queue, filter string) error {
	_, err := topSelection(queue, filter)
	return err
}

// Explain implements [top.Cluster].
func (d *topDesk) Explain(err error) string {
	text := exit.Text(err)
	if _, try := exit.Explain(err); try != "" {
		text += "; try: " + try
	}
	return text
}

// Jobs implements [top.Cluster].
func (d *topDesk) Jobs(ctx context.Context, queue, filter string) (top.Listing, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	s, err := topSelection(queue, filter)
	if err != nil {
		return top.Listing{}, err
	}
	items, err := jobs.Load(ctx, d.a, d.c, s, false)
	if err != nil {
		return top.Listing{}, err
	}
	l := top.Listing{More: len(items) == topJobs, At: time.Now()}
	l.Took = l.At.Sub(began)
	for _, i := range items {
		l.Jobs = append(l.Jobs, topJob(i))
	}
	return l, nil
}

// SetPaused implements [top.Cluster]. A queue that has no config yet has no revision that the library could compare: that
// there is none yet is looked at first.
func (d *topDesk) SetPaused(ctx context.Context, queue string, paused bool, rev int64) error {
	ctx, cancel := d.a.Bounded(ctx)
	defer cancel()
	return d.a.OnQueue(ctx, d.c, queue, func(q *workqueue.Queue) error {
		by := workqueue.By{Actor: cli.Actor(), Reason: topReason, Revision: rev}
		s, err := admin.Settings(ctx, q)
		switch {
		case err != nil:
			return err
		case s.Revision != rev:
			return &exit.Error{Err: fmt.Errorf("%w: its config is at revision %d, not %d", workqueue.ErrConflict, s.Revision, rev), Try: "the key again, if it is still right"}
		case paused:
			return q.Pause(ctx, by)
		}
		return q.Resume(ctx, by)
	})
}

// FindDead implements [top.Cluster].
func (d *topDesk) FindDead(ctx context.Context, queue string) (top.Found, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	m := jobs.Many{Queue: queue, Selection: filter.Selection{States: []string{string(workqueue.StateDead)}}}
	if err := m.Selection.Parse([]string{queue}); err != nil {
		return top.Found{}, err
	}
	var t top.Found
	err := d.a.OnQueue(ctx, d.c, queue, func(q *workqueue.Queue) error {
		f, err := jobs.Find(ctx, d.a, d.c, q, jobs.Retry, m)
		if err != nil {
			return err
		}
		t = top.Found{Count: f.Len(), About: f.About()}
		t.Retry = func(ctx context.Context) (string, error) { return d.retry(ctx, queue, f) }
		return nil
	})
	return t, err
}

// retry retries exactly the jobs that were found, as leasectl jobs retry does.
func (d *topDesk) retry(ctx context.Context, queue string, f jobs.Found) (said string, err error) {
	mute := *d.a
	mute.Out, mute.Err = io.Discard, io.Discard
	err = d.a.OnQueue(ctx, d.c, queue, func(q *workqueue.Queue) error {
		did, err := jobs.Retry.Act(ctx, &mute, q, f, output.Table, topReason)
		said = fmt.Sprintf("%d of %s retried", did.Done, output.Count(f.Len(), "dead job"))
		switch untouched := f.Len() - did.Done - did.Skipped; {
		case did.Failure != nil:
			return err
		case ctx.Err() != nil && untouched > 0:
			said += fmt.Sprintf(", %d not begun", untouched)
		}
		if did.Skipped > 0 {
			said += fmt.Sprintf(", %d skipped: moved since", did.Skipped)
		}
		return nil
	})
	return said, err
}
