package doctor

import (
	"context"
	"strings"

	"github.com/leasekit/leasekit/internal/escape"
)

var x2NoCandidates = &Check{
	Code: "X2", Severity: Warning,
	Means: "an election has had a leader, has none that lives, and nobody stands for it",
	needs: []string{dirSessions, dirElections},
	run: func(_ context.Context, e *Exam) (string, []*Finding, error) {
		var found []*Finding
		for _, c := range sorted(e.look.elections) {
			if c.waiting > 0 || c.key == "" || e.look.held(c) || strings.HasPrefix(c.name, dispatcherOf("")) {
				continue // of dispatchers X1 knows whether they are needed
			}
			f := &Finding{
				Severity: Warning, What: "election " + named(c.name) + " has no candidates", Subject: "election/" + named(c.name), Detail: "nobody leads",
				Key: c.key, Revision: decimal(c.rev), Advice: "leasectl elections campaign " + escape.Shell(c.name) + " -- CMD",
				still: map[string]int64{c.key: c.rev},
			}
			if c.Owner != "" {
				f.Detail = "its last leader, " + c.Owner + ", is gone"
			}
			found = append(found, f)
		}
		return "", found, nil
	},
}
