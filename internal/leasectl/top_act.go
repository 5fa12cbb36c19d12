package leasectl

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

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

func topSelection(queue, text string) (selection, error) {
	s := selection{text: text, limit: topJobs, limited: true}
	return s, s.parse([]string{queue})
}

// Check implements [top.Cluster].
func (d *topDesk) Check(queue, filter string) error {
	_, err := topSelection(queue, filter)
	return err
}

// Explain implements [top.Cluster].
func (d *topDesk) Explain(err error) string {
	text := errorText(err)
	if _, try := explain(err); try != "" {
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
	items, err := loadJobs(ctx, d.a, d.c, s, false)
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
	ctx, cancel := d.a.bounded(ctx)
	defer cancel()
	return d.a.onQueue(ctx, d.c, queue, func(q *workqueue.Queue) error {
		by := workqueue.By{Actor: actor(), Reason: topReason, Revision: rev}
		s, err := q.Settings(ctx)
		switch {
		case err != nil:
			return err
		case s.Revision != rev:
			return &failure{err: fmt.Errorf("%w: its config is at revision %d, not %d", workqueue.ErrConflict, s.Revision, rev), try: "the key again, if it is still right"}
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
	m := manyJobs{queue: queue, selection: selection{states: []string{string(workqueue.StateDead)}}}
	if err := m.selection.parse([]string{queue}); err != nil {
		return top.Found{}, err
	}
	var t top.Found
	err := d.a.onQueue(ctx, d.c, queue, func(q *workqueue.Queue) error {
		f, err := findMany(ctx, d.a, d.c, q, retryOfJobs, m)
		if err != nil {
			return err
		}
		t = top.Found{Count: len(f.jobs), About: strings.Join(f.samples, ", ")}
		if more := len(f.jobs) - len(f.samples); more > 0 {
			t.About += fmt.Sprintf(", and %d more", more)
		}
		t.Retry = func(ctx context.Context) (string, error) { return d.retry(ctx, queue, f) }
		return nil
	})
	return t, err
}

// retry retries exactly the jobs that were found, as leasectl jobs retry does.
func (d *topDesk) retry(ctx context.Context, queue string, f found) (said string, err error) {
	mute := *d.a
	mute.out, mute.err = io.Discard, io.Discard
	err = d.a.onQueue(ctx, d.c, queue, func(q *workqueue.Queue) error {
		rs := &repairs{a: &mute, r: retryOfJobs, q: q, found: f, format: formatTable, quiet: true, by: workqueue.By{Actor: actor(), Reason: topReason}}
		err := rs.run(ctx)
		said = fmt.Sprintf("%d of %s retried", rs.done, count(len(f.jobs), "dead job"))
		switch untouched := len(f.jobs) - rs.done - rs.skipped; {
		case rs.failure != nil:
			return err
		case ctx.Err() != nil && untouched > 0:
			said += fmt.Sprintf(", %d not begun", untouched)
		}
		if rs.skipped > 0 {
			said += fmt.Sprintf(", %d skipped: moved since", rs.skipped)
		}
		return nil
	})
	return said, err
}
