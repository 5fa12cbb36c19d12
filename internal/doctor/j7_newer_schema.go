package doctor

import (
	"context"
	"errors"

	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/workqueue"
)

var j7NewerSchema = &Check{
	Code: "J7", Severity: Error,
	Means: "the keys, or some records, were written by a newer version than this program: nothing is wrong with them, and nothing is repaired",
	needs: []string{dirMeta, dirQueues},
	run: func(_ context.Context, e *Exam) (string, []*Finding, error) {
		var found []*Finding
		keys := e.store.Keys()
		if err := keyspace.CheckMeta(e.look.meta); err != nil {
			found = append(found, &Finding{
				Severity: Error, What: "schema newer than this program", Subject: keys.Meta(), Key: keys.Meta(), Detail: err.Error(),
				Advice: "use the leasectl of that version",
			})
		}
		for _, q := range e.look.queuesOf() {
			n, first := 0, ""
			for _, u := range q.unread {
				if errors.Is(u.err, workqueue.ErrNewer) {
					if n++; first == "" {
						first = q.ref(u.p.ID)
					}
				}
			}
			if n > 0 {
				p := NewerRecords(q.name, n)
				found = append(found, &Finding{Severity: Error, What: p.What, Subject: "queue/" + named(q.name), Detail: "such as " + first, Advice: p.Advice})
			}
		}
		return "", found, nil
	},
}
