package doctor

import (
	"fmt"
)

var j5LargeValue = &Check{
	Code: "J5", Severity: Warning,
	Means: fmt.Sprintf("a record or a payload has more than %d KiB: etcd takes 1.5 MiB in one request, and what closes the job must fit as well", largeValue>>10),
	needs: []string{dirQueues},
	one:   "1 value near the request limit", many: "%d values near the request limit",
	run: eachQueue(func(_ *Exam, q *queueLook) (found []*Finding) {
		for _, j := range q.large {
			detail := q.ref(j.ID)
			if j.PayloadSize >= largeValue {
				detail = fmt.Sprintf("%s (payload of %d KiB)", q.ref(j.ID), j.PayloadSize>>10)
			}
			found = append(found, &Finding{
				Severity: Warning, What: "near the request limit", Subject: q.ref(j.ID), Detail: detail,
				Revision: decimal(j.Revision), Advice: "keep large data elsewhere, and enqueue a reference",
			})
		}
		return found
	}),
}
