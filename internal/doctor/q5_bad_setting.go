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
	run: func(_ context.Context, e *Exam) (string, []*Finding, error) {
		var found []*Finding
		for _, q := range e.look.queuesOf() {
			if q.settingsErr == nil {
				continue
			}
			key := q.keys.Config()
			found = append(found, &Finding{
				Severity: Warning, What: "settings of queue " + named(q.name) + " that nobody goes by", Subject: "queue/" + named(q.name),
				Detail: "revision " + decimal(q.configRev) + ": " + q.settingsErr.Error(), Key: key, Revision: decimal(q.configRev),
				still:  map[string]int64{key: q.configRev},
				Plan:   "take back the settings of queue " + named(q.name) + " that cannot be read",
				repair: keepSettings(q.name, q.configRev),
			})
		}
		return "", found, nil
	},
}

// keepSettings has the config say the settings that can be read, and no others.
func keepSettings(queue string, rev int64) repair {
	return repair{do: func(ctx context.Context, e *Exam, by workqueue.By) (string, error) {
		by.Revision = rev
		q, err := e.queue(ctx, queue)
		if err != nil {
			return "", err
		}
		if err := q.SetSettings(ctx, func(*workqueue.Config) {}, by); err != nil {
			return "", err
		}
		return "queue/" + named(queue) + " has no such setting any more", nil
	}}
}
