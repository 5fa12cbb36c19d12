package admin

import (
	"time"

	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/queue"
	"github.com/leasekit/leasekit/workqueue"
)

// coreOf is the machinery of a handle.
func coreOf(q *workqueue.Queue) *queue.Core { return queue.Of(q) }

// viewOf makes the public job of a record.
func viewOf(r *job.Record, name string, where job.Place, rev int64, now time.Time, ownerLives func(sid string, rev int64) bool) *workqueue.Job {
	return queue.Job(r, name, where, rev, now, ownerLives).(*workqueue.Job)
}

// jobOf is what a change made of a job.
func jobOf(q *workqueue.Queue, l job.Snapshot) *workqueue.Job {
	return viewOf(l.Record, q.Name(), l.Where, l.Rev, time.Now(), queue.Nobody)
}

// describe makes Params of what a record is made of.
func describe(d job.Description) workqueue.Params {
	return workqueue.Params{
		ID: d.ID, Kind: d.Kind, Payload: d.Payload, Priority: d.Priority, RunAt: d.RunAt, Timeout: d.Timeout,
		MaxAttempts: d.MaxAttempts, MaxLosses: d.MaxLosses, AtMostOnce: d.AtMostOnce, Labels: d.Labels, Trace: d.Trace,
	}
}

// description is what Params make of a record.
func description(p workqueue.Params) job.Description {
	return job.Description{
		ID: p.ID, Kind: p.Kind, Payload: p.Payload, Priority: p.Priority, RunAt: p.RunAt, Timeout: p.Timeout,
		MaxAttempts: p.MaxAttempts, MaxLosses: p.MaxLosses, AtMostOnce: p.AtMostOnce, Labels: p.Labels, Trace: p.Trace,
	}
}
