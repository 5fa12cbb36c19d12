package doctor

import (
	"context"

	"github.com/leasekit/leasekit/internal/keyspace"
)

var k3Misnamed = &Check{
	Code: "K3", Severity: Error,
	Means: "a key holds a name that no program takes, as after a put by hand: control characters, no UTF-8, more than 200 bytes. Lists leave it out, and nothing can be done to it by its name",
	Fix:   "deletes it",
	needs: []string{dirQueues, dirLocks, dirElections},
	one:   "1 key of a name that cannot be used", many: "%d keys of names that cannot be used",
	run: func(_ context.Context, e *Exam) (string, []*Finding, error) {
		var found []*Finding
		for _, k := range e.look.misnamed {
			f := e.leftover(k.kv(), misnamed(k.p).Error())
			f.Severity, f.What = Error, "name that cannot be used"
			found = append(found, f)
		}
		return "", found, nil
	},
}

// misnamed tells why a name in a key can be used by nobody, nil where all can.
func misnamed(p keyspace.ParsedKey) error {
	for _, n := range []struct{ field, name string }{{"name", p.Name}, {"queue", p.Queue}, {"id", p.ID}} {
		if n.name != "" {
			if err := keyspace.ValidateName(n.field, n.name); err != nil {
				return err
			}
		}
	}
	return nil
}
