package doctor

import (
	"context"
	"fmt"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/line"
	"github.com/leasekit/leasekit/workqueue"
)

var x1NoDispatcher = &Check{
	Code: "X1", Severity: Error,
	Means: "a queue in mode dispatch has no dispatcher: nothing of it is handed out. An error where jobs wait",
	needs: []string{dirSessions, dirElections, dirQueues},
	run: func(ctx context.Context, e *Exam) (string, []*Finding, error) {
		var found []*Finding
		for _, q := range e.look.queuesOf() {
			name := dispatcherOf(q.name)
			c := e.look.elections[name]
			if q.config.Mode != workqueue.ModeDispatch || e.look.held(c) {
				continue
			}
			still, err := e.leaderStays(ctx, name, c)
			if err != nil {
				return "", nil, err
			}
			f := &Finding{
				Severity: Warning, What: fmt.Sprintf("queue %s has no dispatcher", named(q.name)), Subject: "queue/" + named(q.name), Detail: "nothing waits",
				Advice: "leasectl dispatch " + escape.Shell(q.name), still: still,
			}
			if n := len(q.open) + len(q.gone); n > 0 {
				f.Severity, f.Detail = Error, fmt.Sprintf("%d jobs wait", n)
			}
			found = append(found, f)
		}
		return "", found, nil
	},
}

// leaderStays is that nobody has taken an election meanwhile.
func (e *Exam) leaderStays(ctx context.Context, name string, c *claim) (map[string]int64, error) {
	if c != nil && c.key != "" {
		return map[string]int64{c.key: c.rev}, nil
	}
	st, err := line.LeadershipState(ctx, e.store, name)
	if err != nil {
		return nil, err
	}
	return map[string]int64{st.Key: 0}, nil
}
