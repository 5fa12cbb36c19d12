package doctor

import (
	"errors"
	"strings"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/workqueue"
)

var j2Undecodable = &Check{
	Code: "J2", Severity: Error,
	Means: "a job's record cannot be read, as after an edit by hand: it blocks nothing but itself, and nobody works it",
	Fix:   "moves it to dead/ with what can be read of it, else with all its bytes as the payload",
	needs: []string{dirQueues},
	one:   "1 undecodable record", many: "%d undecodable records",
	run: eachQueue(func(_ *Exam, q *queueLook) (found []*Finding) {
		for _, u := range q.unread {
			if errors.Is(u.err, workqueue.ErrNewer) {
				continue // J7
			}
			why := strings.TrimPrefix(u.err.Error(), workqueue.ErrUndecodable.Error()+": ")
			found = append(found, &Finding{
				Severity: Error, What: "undecodable record", Subject: q.ref(u.p.ID),
				Detail: q.ref(u.p.ID) + " in " + u.p.Kind + "/ revision " + decimal(u.rev) + " (" + why + ")",
				Key:    u.name, Revision: decimal(u.rev), still: map[string]int64{u.name: u.rev},
				Plan:   "move " + q.ref(u.p.ID) + " to dead/",
				repair: onJob(q.name, u.p.ID, u.rev, admin.Salvage),
			})
		}
		return found
	}),
}
