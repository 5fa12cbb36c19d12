package doctor

import "context"

var s1SessionWithoutLease = &Check{
	Code: "S1", Severity: Error,
	Means: "a session's key hangs on no lease, as after a put by hand: it never ends, so what it has claimed is never taken over",
	Fix:   "deletes the key: what the session has claimed can be taken over, and a live process opens another one",
	needs: []string{dirSessions},
	many:  "%d sessions without a lease", one: "1 session without a lease",
	run: func(_ context.Context, e *Exam) (string, []*Finding, error) {
		var found []*Finding
		for _, s := range e.look.sessionsOf() {
			if s.lease != 0 {
				continue
			}
			found = append(found, &Finding{
				Severity: Error, What: "session without a lease", Subject: "session/" + s.id, Detail: s.id,
				Key: string(s.kv.Key), Revision: decimal(s.written), still: map[string]int64{string(s.kv.Key): s.written},
				Plan: "delete session " + s.id + ", so that its claims can be taken over", repair: deleteLeftover(s.kv),
			})
		}
		return "", found, nil
	},
}
