package doctor

import (
	"context"
	"fmt"
	"time"
)

var s4WrongLease = &Check{
	Code: "S4", Severity: Error,
	Means: "a session's key hangs on another lease than the one that its id names, or on one longer than any session's, as after a put by hand: it stays when its process is gone, so what it has claimed is not taken over",
	Fix:   "deletes the key: what the session has claimed can be taken over, and a live process opens another one",
	needs: []string{dirSessions},
	many:  "%d sessions on a wrong lease", one: "1 session on a wrong lease",
	run: func(ctx context.Context, e *Exam) (string, []*Finding, error) {
		var found []*Finding
		granted := e.grantedTTLs(ctx)
		for _, s := range e.look.sessionsOf() {
			why := ""
			switch p, _ := e.store.Keys().Parse(string(s.kv.Key)); {
			case s.lease == 0: // S1
			case s.lease != p.Lease():
				why = fmt.Sprintf("hangs on lease %016x, not on its own", s.lease)
			case granted[s.id] > longestTTL:
				why = "its lease is for " + ago(granted[s.id])
			}
			if why == "" {
				continue
			}
			found = append(found, &Finding{
				Severity: Error, What: "session on a wrong lease", Subject: "session/" + s.id, Detail: s.id + ": " + why,
				Key: string(s.kv.Key), Revision: decimal(s.written), Lease: fmt.Sprintf("%016x", s.lease),
				still: map[string]int64{string(s.kv.Key): s.written},
				Plan:  "delete session " + s.id + ", so that its claims can be taken over", repair: deleteLeftover(s.kv),
			})
		}
		return "", found, nil
	},
}

// longestTTL is the longest that a session may ask for.
const longestTTL = 24 * time.Hour

// grantedTTLs is how long the leases of sessions are, of those that S2 has not asked for too.
func (e *Exam) grantedTTLs(ctx context.Context) map[string]time.Duration {
	ask := map[string]*lateLease{}
	for _, s := range e.look.sessionsOf() {
		if _, asked := e.granted[s.id]; s.lease != 0 && !asked {
			ask[s.id] = &lateLease{session: s}
		}
	}
	e.sample(ctx, ask)
	return e.granted
}
