package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/job"
)

// findBeside is Find with what lies beside the record, as of a revision; 0 is now.
func (q *Core) findBeside(ctx context.Context, id string, rev int64) (l job.Snapshot, b job.Beside, err error) {
	asOf := clientv3.WithRev(rev)
	l, resp, err := q.FindAt(ctx, rev, id, clientv3.OpGet(q.Keys().Payload(id), asOf), clientv3.OpGet(q.Keys().Progress(id), asOf))
	if err != nil || l.Record == nil {
		return l, b, err
	}
	b.Payload = l.Record.PayloadBytes()
	if kv := Only(resp, 3); kv != nil && l.Record.Beside > 0 {
		b.Payload = kv.Value
	}
	if kv := Only(resp, 4); kv != nil {
		b.Progress, b.ProgressRev = kv.Value, kv.ModRevision
	}
	return l, b, nil
}

// PresumedAlive asks etcd whether an owner lives, and presumes so when it does not
// answer.
func (q *Core) PresumedAlive(ctx context.Context) func(string, int64) bool {
	return func(sid string, rev int64) bool {
		alive, err := q.OwnerLives(ctx, sid, rev)
		return alive || err != nil
	}
}

// Nobody lives: for records that are not claimed.
func Nobody(string, int64) bool { return false }

// Find is Locate, which refuses a record that names another job than its key.
func (q *Core) Find(ctx context.Context, id string, more ...clientv3.Op) (job.Snapshot, *clientv3.TxnResponse, error) {
	return q.FindAt(ctx, 0, id, more...)
}

// FindAt is Find as of a revision, which etcd may have compacted; 0 is now.
func (q *Core) FindAt(ctx context.Context, rev int64, id string, more ...clientv3.Op) (job.Snapshot, *clientv3.TxnResponse, error) {
	l, resp, err := q.locateAt(ctx, rev, id, more...)
	if err == nil && l.Record != nil && l.Record.ID != id {
		return job.Snapshot{}, nil, fmt.Errorf("%w: %s names job %q", job.ErrUndecodable, q.Txns.Key(l.Where, id), l.Record.ID)
	}
	return l, resp, err
}

// OwnerLives asks etcd whether a claim's owner has its session.
func (q *Core) OwnerLives(ctx context.Context, sid string, rev int64, opts ...clientv3.OpOption) (bool, error) {
	key := q.Store.Keys().Session(sid)
	resp, err := q.Store.Get(ctx, key, opts...)
	if err != nil {
		return false, Unreadable(key, err)
	}
	return len(resp.Kvs) == 1 && resp.Kvs[0].CreateRevision == rev, nil
}

// Unreadable names what could not be read, for whoever has to grant it.
func Unreadable(prefix string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("read %s: %w", prefix, err)
}

// MaxTries bounds how often a call looks again after somebody else was faster.
const MaxTries = 8

// Locate finds a job wherever it is, at one revision. A nil record means that
// there is none.
func (q *Core) Locate(ctx context.Context, id string, more ...clientv3.Op) (job.Snapshot, *clientv3.TxnResponse, error) {
	return q.locateAt(ctx, 0, id, more...)
}

// locateAt is locate as of a revision, which etcd may have compacted; 0 is now.
func (q *Core) locateAt(ctx context.Context, rev int64, id string, more ...clientv3.Op) (l job.Snapshot, resp *clientv3.TxnResponse, err error) {
	var gets []clientv3.Op
	for where := job.InJobs; where <= job.InDead; where++ {
		gets = append(gets, clientv3.OpGet(q.Txns.Key(where, id), clientv3.WithRev(rev)))
	}
	if resp, err = q.Store.Read(ctx, append(gets, more...)...); err != nil {
		return job.Snapshot{}, nil, err
	}
	for where := job.InJobs; where <= job.InDead; where++ {
		kvs := resp.Responses[where].GetResponseRange().Kvs
		if len(kvs) == 0 {
			continue
		}
		r, err := job.Decode(kvs[0].Value)
		if err != nil {
			return job.Snapshot{}, nil, fmt.Errorf("read %s: %w", kvs[0].Key, err)
		}
		return job.Snapshot{Record: r, Where: where, Rev: kvs[0].ModRevision, Created: kvs[0].CreateRevision, HasProgress: r.Attempt > 0}, resp, nil
	}
	return job.Snapshot{}, resp, nil
}

// JobAt is what could be found out of a job as of a revision, or as it is now where
// etcd does not have that any more; 0 is now.
func (q *Core) JobAt(ctx context.Context, id string, rev int64) job.Snapshot {
	l, _, err := q.locateAt(ctx, rev, id)
	if rev != 0 && err != nil {
		l, _, _ = q.locateAt(ctx, 0, id)
	}
	return l
}

// Only returns the one key that the i-th get of a read found, or nil.
func Only(resp *clientv3.TxnResponse, i int) *mvccpb.KeyValue {
	if kvs := resp.Responses[i].GetResponseRange().Kvs; len(kvs) == 1 {
		return kvs[0]
	}
	return nil
}

// IsForgotten tells that etcd does not have a revision: it was compacted, or history
// went back behind it.
func IsForgotten(err error) bool {
	err = rpctypes.Error(err)
	return errors.Is(err, rpctypes.ErrCompacted) || errors.Is(err, rpctypes.ErrFutureRev)
}

// FirstChange is the revision of a key's first change from revision rev on, which is
// known to have happened; 0 when etcd could not tell.
func (q *Core) FirstChange(ctx context.Context, key string, rev int64) int64 {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	ev, err := q.Store.FirstChange(ctx, key, rev)
	if err != nil {
		return 0
	}
	return ev.Kv.ModRevision
}

// changeTimeout is how long a change of the past is looked for.
const changeTimeout = 3 * time.Second
