package doctor

import (
	"fmt"

	"github.com/leasekit/leasekit/admin"
)

var j3Exceeded = &Check{
	Code: "J3", Severity: Error,
	Means: "a job waits although it has used up its attempts or its losses: it would be started once more than it may",
	Fix:   "buries it: it is dead, and can be requeued with its counters reset",
	needs: []string{dirQueues},
	one:   "1 job beyond its attempts", many: "%d jobs beyond their attempts",
	run: eachQueue(func(_ *Exam, q *queueLook) (found []*Finding) {
		for _, j := range q.over {
			n, most, of := j.Failures, j.MaxAttempts, "failures"
			if j.Failures < j.MaxAttempts {
				n, most, of = j.Losses, j.MaxLosses, "losses"
			}
			key := q.keys.Job(j.ID)
			found = append(found, &Finding{
				Severity: Error, What: "beyond its attempts", Subject: q.ref(j.ID),
				Detail: fmt.Sprintf("%s revision %d (%d %s of %d)", q.ref(j.ID), j.Revision, n, of, most),
				Key:    key, Revision: decimal(j.Revision), still: map[string]int64{key: j.Revision},
				Plan:   "bury " + q.ref(j.ID),
				repair: onJob(q.name, j.ID, j.Revision, admin.Bury),
			})
		}
		return found
	}),
}
