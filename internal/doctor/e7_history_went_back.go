package doctor

import (
	"context"
	"encoding/json"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/escape"
)

var e7HistoryWentBack = &Check{
	Code: "E7", Severity: Warning,
	Means: "etcd's history went back, as after a restore from a backup: a refused write names a token that etcd had not reached when the refusal was kept. Processes that lived through it start anew; leases of others may have come back with the backup",
	needs: []string{dirQueues},
	one:   "etcd's history went back", many: "etcd's history went back: %d refused writes of before it",
	run: func(_ context.Context, e *Exam) (string, []*Finding, error) {
		var found []*Finding
		for _, f := range e.look.future {
			ref := escape.Job(f.queue, f.id)
			found = append(found, &Finding{
				Severity: Warning, What: "etcd's history went back", Subject: "job/" + ref,
				Detail: ref + " had token " + f.token.String() + ", refused at revision " + decimal(f.rev),
				Key:    f.key, Revision: decimal(f.rev),
				Advice: "leasectl doctor --after-restore, unless that was done; the refusal goes with its retention",
			})
		}
		return "", found, nil
	},
}

// foretold is evidence that names a token of another history.
type foretold struct {
	queue, id, key string
	token          coord.Token
	rev            int64
}

// refusals takes up the evidence of late writes: its leases, and whether it is of another history.
func (l *look) refusals(keys keyspace.Keyspace) each {
	leases := l.leases(keys)
	return func(kvs []*mvccpb.KeyValue) error {
		for _, kv := range kvs {
			var r admin.Refusal
			p, ok := keys.Parse(string(kv.Key))
			if ok && json.Unmarshal(kv.Value, &r) == nil && int64(r.Token) >= kv.ModRevision {
				l.future = append(l.future, foretold{p.Queue, p.ID, string(kv.Key), r.Token, kv.ModRevision})
			}
		}
		return leases(kvs)
	}
}
