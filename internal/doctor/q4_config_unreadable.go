package doctor

import (
	"context"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/internal/leasectl/escape"
	"github.com/leasekit/leasekit/workqueue"
)

var q4ConfigUnreadable = &Check{
	Code: "Q4", Severity: Error,
	Means: "a queue's config cannot be read, as after an edit by hand: nothing of the queue is claimed until it is mended",
	Fix:   "replaces it by one that pauses the queue and keeps what can be read of it; leasectl queues resume and set then work",
	needs: []string{dirQueues},
	run: func(_ context.Context, e *Exam) (string, []*Finding, error) {
		var found []*Finding
		for _, q := range e.look.queuesOf() {
			if q.configErr == nil {
				continue
			}
			key := q.keys.Config()
			found = append(found, &Finding{
				Severity: Error, What: UnreadableConfig(q.name).What, Subject: "queue/" + named(q.name),
				Detail: "revision " + decimal(q.configRev) + " is " + q.configText + " (" + q.configErr.Error() + ")", Key: key, Revision: decimal(q.configRev),
				still:  map[string]int64{key: q.configRev},
				Plan:   "pause queue " + named(q.name) + " by a new config",
				repair: mendConfig(q.name, q.configRev),
			})
		}
		return "", found, nil
	},
}

func mendConfig(queue string, rev int64) repair {
	return repair{do: func(ctx context.Context, e *Exam, by workqueue.By) (string, error) {
		by.Revision = rev
		q, err := e.queue(ctx, queue)
		if err != nil {
			return "", err
		}
		if err := admin.MendConfig(ctx, q, by); err != nil {
			return "", err
		}
		return "queue/" + named(queue) + " is paused; when it may go on: leasectl queues resume " + escape.Shell(queue), nil
	}}
}
