package doctor

import (
	"context"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/workqueue"
)

var q4ConfigUnreadable = &Check{
	Code: "Q4", Severity: Error,
	Means: "a queue's config cannot be read, as after an edit by hand: nothing of the queue is claimed until it is mended",
	Fix:   "replaces it by one that pauses the queue and keeps what can be read of it; leasectl queues resume and set then work",
	needs: []string{dirQueues},
	run: eachQueue(func(_ *Exam, q *queueLook) []*Finding {
		if q.configErr == nil {
			return nil
		}
		key := q.keys.Config()
		return []*Finding{{
			Severity: Error, What: UnreadableConfig(q.name).What, Subject: "queue/" + named(q.name),
			Detail: "revision " + decimal(q.configRev) + " is " + q.configText + " (" + q.configErr.Error() + ")", Key: key, Revision: decimal(q.configRev),
			still:  map[string]int64{key: q.configRev},
			Plan:   "pause queue " + named(q.name) + " by a new config",
			repair: mendConfig(q.name, q.configRev),
		}}
	}),
}

func mendConfig(queue string, rev int64) repair {
	return onQueue(queue, rev, func(ctx context.Context, q *workqueue.Queue, by workqueue.By) (string, error) {
		return "queue/" + named(queue) + " is paused; when it may go on: leasectl queues resume " + escape.Shell(queue), admin.MendConfig(ctx, q, by)
	})
}
