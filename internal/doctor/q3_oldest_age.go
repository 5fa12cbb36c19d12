package doctor

import (
	"fmt"

	"github.com/leasekit/leasekit/internal/escape"
)

var q3OldestAge = &Check{
	Code: "Q3", Severity: Warning,
	Means: "a job waits to be claimed for longer than --max-wait, although workers serve its queue: there are too few, or they hang",
	needs: []string{dirSessions, dirQueues},
	run: eachQueue(func(e *Exam, q *queueLook) []*Finding {
		if q.config.Paused {
			return nil
		}
		oldest, _, ok := q.oldest(func(w waiting) bool { return len(e.look.serving(q, w.kind)) > 0 })
		age := e.look.at.Sub(oldest.since)
		if !ok || oldest.since.IsZero() || age <= e.opts.MaxWait {
			return nil
		}
		return []*Finding{{
			Severity: Warning, What: fmt.Sprintf("queue %s oldest ready %s", named(q.name), ago(age)), Subject: "queue/" + named(q.name),
			Detail: fmt.Sprintf("%s; target %s; %d ready, %d workers", q.ref(oldest.id), e.opts.MaxWait, len(q.open), len(q.workers)),
			Advice: "more workers, or a look at what they do: leasectl jobs ls " + escape.Shell(q.name), still: map[string]int64{oldest.key: oldest.rev},
		}}
	}),
}
