package workqueue

import (
	"context"
	"time"

	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/queue"
)

// Cancel ends a live job as cancelled, whoever owns it: a running owner is fenced
// and its context ends with cause [ErrCancelled]. It returns the job as it is
// then; [ErrNotFound]; [ErrNotApplicable] when the job is over already;
// [ErrConflict] when By.Revision is not current.
func (q *Queue) Cancel(ctx context.Context, id string, by By) (*Job, error) {
	return q.intervene(ctx, id, job.VerbCancel, by)
}

// Requeue brings a dead, done or cancelled job back, its counters reset, its trail
// kept, behind the jobs that wait. From done only while the payload is still
// there. A job that waits for its next attempt after a failure or a loss is due at
// once, in its old place, its counters reset too. It returns as Cancel does.
func (q *Queue) Requeue(ctx context.Context, id string, by By) (*Job, error) {
	return q.intervene(ctx, id, job.VerbRequeue, by)
}

// intervene makes a transition on somebody's behalf.
func (q *Queue) intervene(ctx context.Context, id string, v job.Verb, by By) (*Job, error) {
	l, err := q.core.Intervene(ctx, id, v, by.inner())
	if err != nil {
		return nil, err
	}
	return q.jobOf(l), nil
}

// jobOf is what a change made of a job.
func (q *Queue) jobOf(l job.Snapshot) *Job {
	return view(l.Record, q.core.Name(), l.Where, l.Rev, time.Now(), queue.Nobody)
}
