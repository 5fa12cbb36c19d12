package queue

import (
	"time"

	"github.com/leasekit/leasekit/internal/job"
)

// View makes the public job of a record: see workqueue.Job.
type View func(r *job.Record, queue string, where job.Place, rev int64, now time.Time, ownerLives func(sid string, rev int64) bool) any

var (
	coreOf func(public any) *Core
	viewOf View
)

// Serve is called by package workqueue, once: it tells the core of a *workqueue.Queue, and
// makes its jobs, for the packages of ours that stand beside it.
func Serve(of func(public any) *Core, view View) { coreOf, viewOf = of, view }

// Of is the core of a *workqueue.Queue.
func Of(public any) *Core { return coreOf(public) }

// Job makes a *workqueue.Job of a record.
func Job(r *job.Record, queue string, where job.Place, rev int64, now time.Time, ownerLives func(sid string, rev int64) bool) any {
	return viewOf(r, queue, where, rev, now, ownerLives)
}
