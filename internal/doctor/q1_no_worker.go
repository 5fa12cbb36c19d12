package doctor

import (
	"fmt"
	"time"

	"github.com/leasekit/leasekit/internal/escape"
)

var q1NoWorker = &Check{
	Code: "Q1", Severity: Warning,
	Means: "jobs could be claimed, and no live worker serves their queue, or knows their kind",
	needs: []string{dirSessions, dirQueues},
	run: eachQueue(func(e *Exam, q *queueLook) (found []*Finding) {
		if q.config.Paused {
			return nil
		}
		live := 0
		for sid := range q.workers {
			if e.look.sessions[sid] != nil {
				live++
			}
		}
		if live == 0 {
			return e.unserved(q, "", func(waiting) bool { return true })
		}
		for _, kind := range q.kindsOf() {
			if len(e.look.serving(q, kind)) == 0 {
				found = append(found, e.unserved(q, kind, func(w waiting) bool { return w.kind == kind })...)
			}
		}
		return found
	}),
}

// unserved reports the jobs that keep selects, where there are some.
func (e *Exam) unserved(q *queueLook, kind string, keep func(waiting) bool) []*Finding {
	oldest, n, ok := q.oldest(keep)
	if !ok {
		return nil
	}
	f := &Finding{
		Severity: Warning, What: fmt.Sprintf("queue %s has %d ready and no live worker", named(q.name), n), Subject: "queue/" + named(q.name),
		Detail: fmt.Sprintf("oldest %s (%s)", e.look.ago(oldest.since), q.ref(oldest.id)),
		Advice: "leasectl work " + escape.Shell(q.name) + " -- CMD", still: map[string]int64{oldest.key: oldest.rev},
	}
	if kind != "" {
		f.What = fmt.Sprintf("queue %s has %d ready of kind %s, which no live worker knows", named(q.name), n, named(kind))
	}
	return []*Finding{f}
}

// ago is how long something has lasted at the look.
func (l *look) ago(since time.Time) string {
	if since.IsZero() {
		return "unknown"
	}
	return ago(l.at.Sub(since))
}

// ago is a length of time as people say it.
func ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d.Seconds())))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 72*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
