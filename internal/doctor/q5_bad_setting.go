package doctor

import (
	"context"

	"github.com/leasekit/leasekit/workqueue"
)

var q5BadSetting = &Check{
	Code: "Q5", Severity: Warning,
	Means: "a queue's config has a setting that cannot be read or is out of bounds, as after an edit by hand: nobody goes by it",
	Fix:   "takes it back; the other settings stay, and leasectl queues set sets it anew",
	needs: []string{dirQueues},
	run: eachQueue(func(_ *Exam, q *queueLook) []*Finding {
		if q.settingsErr == nil {
			return nil
		}
		key := q.keys.Config()
		return []*Finding{{
			Severity: Warning, What: "settings of queue " + named(q.name) + " that nobody goes by", Subject: "queue/" + named(q.name),
			Detail: "revision " + decimal(q.configRev) + ": " + q.settingsErr.Error(), Key: key, Revision: decimal(q.configRev),
			still:  map[string]int64{key: q.configRev},
			Plan:   "take back the settings of queue " + named(q.name) + " that cannot be read",
			repair: keepSettings(q.name, q.configRev),
		}}
	}),
}

// keepSettings has the config say the settings that can be read, and no others.
func keepSettings(queue string, rev int64) repair {
	return onQueue(queue, rev, func(ctx context.Context, q *workqueue.Queue, by workqueue.By) (string, error) {
		return "queue/" + named(queue) + " has no such setting any more", q.SetSettings(ctx, func(*workqueue.Config) {}, by)
	})
}
