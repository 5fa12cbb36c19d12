package doctor

import (
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
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

// refusals takes up the evidence of late writes: whether it has a lease, and whether it is of another history.
func (l *look) refusals(q *queueLook, keys keyspace.Keyspace) each {
	return func(kvs []*mvccpb.KeyValue) error {
		for _, kv := range kvs {
			if _, ok := keys.Parse(string(kv.Key)); ok && kv.Lease == 0 {
				l.leaseless = append(l.leaseless, kv)
			}
			if id, r, ok := job.RefusalIn(keys, kv); ok && int64(r.Token) >= kv.ModRevision {
				l.future = append(l.future, foretold{q.name, id, string(kv.Key), coord.Token(r.Token), kv.ModRevision})
			}
		}
		return nil
	}
}
