package workqueue

import (
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// Decode reads the record of a job of any queue, live, done or dead, as it was found
// in etcd; ownerLives is asked whether a claim's owner has its session, with
// the revision at which it began, and may be nil, which means that it has. It talks
// to nobody. The error matches [ErrUndecodable] when the record cannot be read,
// [ErrNewer] too where a newer program could, and wraps coord.ErrInvalid when the key
// is none of a job.
func (qs Queues) Decode(kv *mvccpb.KeyValue, ownerLives func(sid string, rev int64) bool) (*Job, error) {
	keys, err := keyspace.New(qs.Root)
	if err != nil {
		return nil, err
	}
	p, ok := keys.Parse(string(kv.Key))
	where, known := map[string]job.Place{"jobs": job.InJobs, "done": job.InDone, "dead": job.InDead}[p.Kind]
	if !ok || !known {
		return nil, &coord.InputError{Field: "key", Value: string(kv.Key), Reason: "it is no key of a job"}
	}
	r, err := job.Txns{Keys: keys.Queue(p.Queue), Space: keys}.Decode(where, kv)
	if err != nil {
		return nil, err
	}
	if ownerLives == nil {
		ownerLives = func(string, int64) bool { return true }
	}
	return view(r, p.Queue, where, kv.ModRevision, time.Now(), ownerLives), nil
}
