package doctor

import (
	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/workqueue"
)

var k4KindUnfit = &Check{
	Code: "K4", Severity: Warning,
	Means: "a live job has a kind that no program of ours enqueues: too long, or with a NUL byte, as after a put by hand. leasectl work buries it, since it cannot tell its command what it works on",
	needs: []string{dirQueues},
	one:   "1 job of an unfit kind", many: "%d jobs of unfit kinds",
	run: eachQueue(func(_ *Exam, q *queueLook) (found []*Finding) {
		for _, j := range q.unfit {
			found = append(found, &Finding{
				Severity: Warning, What: "unfit kind", Subject: q.ref(j.ID), Detail: q.ref(j.ID) + ": " + keyspace.ValidateName("kind", j.Kind).Error(),
				Revision: decimal(j.Revision), still: map[string]int64{q.keys.Job(j.ID): j.Revision},
				Advice: "enqueue it anew under another kind, and leasectl jobs cancel " + escape.Shell(escape.Job(q.name, j.ID)),
			})
		}
		return found
	}),
}

// fitKind tells whether a job's kind is one that can be enqueued.
func fitKind(j *workqueue.Job) bool {
	return j.Kind == "" || !j.State.Live() || keyspace.ValidateName("kind", j.Kind) == nil
}
