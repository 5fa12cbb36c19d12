package doctor

import (
	"context"
	"strings"

	"github.com/leasekit/leasekit/internal/escape"
)

var k1ForeignKey = &Check{
	Code: "K1", Severity: Warning,
	Means: "a key under the root is none of ours. It is left alone: only whoever put it knows what it is for, and it may be a newer version's",
	one:   "1 key outside the schema", many: "%d keys outside the schema",
	needs: []string{dirMeta},
	run: func(_ context.Context, e *Exam) (string, []*Finding, error) {
		var found []*Finding
		for _, k := range e.look.foreign {
			if e.planned(k.name) {
				continue
			}
			found = append(found, &Finding{
				Severity: Warning, What: "outside the schema", Subject: named(k.name), Detail: named(k.name), Key: k.name, Revision: decimal(k.rev),
				Advice: "etcdctl get " + escape.Shell(k.name) + ", and etcdctl del where nobody needs it", still: map[string]int64{k.name: k.rev},
			})
		}
		return "", found, nil
	},
}

// planned tells whether a key lies where newer versions keep theirs.
func (e *Exam) planned(key string) bool {
	keys := e.store.Keys()
	rest := strings.TrimPrefix(key, keys.Root())
	if strings.HasPrefix(rest, "schedules/") {
		return true
	}
	seg := strings.Split(rest, "/")
	return len(seg) > 2 && seg[0] == "queues" && seg[2] == "slots"
}
