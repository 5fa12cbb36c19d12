package doctor

import (
	"fmt"
	"time"

	"github.com/leasekit/leasekit/internal/escape"
)

var q2PausedLong = &Check{
	Code: "Q2", Severity: Warning,
	Means: "a queue is paused for longer than --max-pause, perhaps forgotten. Where the config does not say since when, what was enqueued later tells how long it is at least",
	needs: []string{dirQueues},
	run: eachQueue(func(e *Exam, q *queueLook) []*Finding {
		since, atLeast := e.pausedSince(q)
		if !q.config.Paused || since.IsZero() || e.look.at.Sub(since) <= e.opts.MaxPause {
			return nil
		}
		f := &Finding{
			Severity: Warning, What: fmt.Sprintf("queue %s paused %s", named(q.name), ago(e.look.at.Sub(since))), Subject: "queue/" + named(q.name),
			Key: q.keys.Config(), Revision: decimal(q.configRev), Advice: "leasectl queues resume " + escape.Shell(q.name),
			still: map[string]int64{q.keys.Config(): q.configRev},
		}
		if atLeast {
			f.What += " or longer"
		}
		if q.config.Actor != "" {
			f.Detail = "by " + q.config.Actor
		}
		if q.config.Reason != "" {
			f.Detail += fmt.Sprintf(": %q", q.config.Reason)
		}
		return []*Finding{f}
	}),
}

// pausedSince is when a queue's config was written; atLeast tells that it was that, or earlier: the oldest time that
// anything written later carries.
func (e *Exam) pausedSince(q *queueLook) (since time.Time, atLeast bool) {
	if !q.config.At.IsZero() {
		return q.config.At, false
	}
	for _, w := range q.open {
		if w.rev > q.configRev && (since.IsZero() || w.since.Before(since)) {
			since = w.since
		}
	}
	for _, s := range e.look.sessions {
		if s.created > q.configRev && !s.Opened.IsZero() && (since.IsZero() || s.Opened.Before(since)) {
			since = s.Opened
		}
	}
	return since, true
}
