package doctor

import (
	"context"
	"fmt"

	"github.com/leasekit/leasekit/coord"
)

var x3LongHold = &Check{
	Code: "X3", Severity: Warning,
	Means: "a lock is held for longer than --max-hold while others wait for it, or by a session that is gone",
	Fix:   "releases it by force, to the first who waits: its holder is fenced, and may still be running",
	needs: []string{dirSessions, dirLocks},
	run: func(_ context.Context, e *Exam) (string, []*Finding, error) {
		var found []*Finding
		for _, c := range sorted(e.look.locks) {
			held, age := e.look.held(c), e.look.at.Sub(c.Since)
			if c.Owner == "" || c.waiting == 0 || held && (c.Since.IsZero() || age <= e.opts.MaxHold) {
				continue
			}
			f := &Finding{
				Severity: Warning, What: fmt.Sprintf("lock %s held %s while %d wait", named(c.name), e.look.ago(c.Since), c.waiting), Subject: "lock/" + named(c.name),
				Detail: fmt.Sprintf("by %s token %d", named(c.Owner), c.rev), Key: c.key, Revision: decimal(c.rev), Token: decimal(c.rev),
				still: map[string]int64{c.key: c.rev}, Plan: fmt.Sprintf("take lock %s from %s by force, to the first who waits", named(c.name), named(c.Owner)),
				repair: forceRelease(c.name, coord.Token(c.rev)),
			}
			if !held {
				f.Severity, f.What = Error, fmt.Sprintf("lock %s held by a gone session while %d wait", named(c.name), c.waiting)
			}
			found = append(found, f)
		}
		return "", found, nil
	},
}
