package doctor

import (
	"context"
	"fmt"
)

var q4ConfigUnreadable = &Check{
	Code: "Q4", Severity: Error,
	Means: "a queue's config cannot be read, as after an edit by hand: nothing of the queue is claimed until it is mended or deleted",
	needs: []string{dirQueues},
	run: func(_ context.Context, e *Exam) (string, []*Finding, error) {
		var found []*Finding
		for _, q := range e.look.queuesOf() {
			if q.configErr == nil {
				continue
			}
			key := q.keys.Config()
			found = append(found, &Finding{
				Severity: Error, What: fmt.Sprintf("config of queue %s cannot be read", q.name), Subject: "queue/" + q.name,
				Detail: q.configErr.Error(), Key: key, Revision: decimal(q.configRev),
				Advice: "etcdctl del " + key + ", then leasectl queues set and pause as wanted",
				still:  map[string]int64{key: q.configRev},
			})
		}
		return "", found, nil
	},
}
