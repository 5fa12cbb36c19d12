// Package leftover takes away what belongs to nothing any more, and ends leases on behalf
// of whoever was shown their keys.
package leftover

import (
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/lane"
)

// Delete deletes keys that belong to nothing any more, each only while that
// is still so, and while the key is as it was seen:
//
//   - a session, lane, registration of a worker, waiting entry, done job or refusal
//     without a lease, which would never go away; the claims of such a session are
//     orphans from then on;
//   - a registration or waiting entry on another lease than its session's, a lane on
//     another than its own, and a session on whatever lease was seen, since that may be one that outlives every process;
//   - a payload or progress whose job is neither live nor dead;
//   - an inbox entry whose job is not claimed by that assignment;
//   - whatever has a name that [keyspace.ValidateName] refuses, as after a put by hand: no
//     program takes it by that name.
//
// Of what was seen the key, the mod revision, the lease and, where there is one, the
// value count. errs[i] belongs to seen[i]: nil when it was deleted; [fault.ErrRefused] when it
// changed or belongs to something now; [fault.ErrInvalid] when it is a key of another
// kind; else as of [lane.Committer.Do]. It blocks until all outcomes are known or ctx
// ends.
func Delete(ctx context.Context, s *etcdkv.Store, seen []*mvccpb.KeyValue) (errs []error) {
	c, done := lane.OwnLane(ctx, s, "leftovers")
	defer done()
	errs = make([]error, len(seen))
	pending := make([]*lane.Pending, len(seen))
	for i, kv := range seen {
		txn, err := leftoverTxns{s.Keys()}.remove(kv)
		if err != nil {
			errs[i] = err
			continue
		}
		pending[i] = c.Go(txn)
	}
	for i, p := range pending {
		if p == nil {
			continue
		}
		r, err := p.Wait(ctx)
		if err == nil && !r.Succeeded {
			err = fmt.Errorf("%w: it changed meanwhile, or belongs to something now", fault.ErrRefused)
		}
		if err != nil {
			errs[i] = fmt.Errorf("delete %s: %w", seen[i].Key, err)
		}
	}
	return errs
}

// leftoverTxns builds the Txns that take leftovers away. It knows no etcd.
type leftoverTxns struct{ space keyspace.Keyspace }

// remove deletes one leftover. The guard closes the race with whoever writes the key
// again, and is all there is for a key of a name that nobody can use. What else is
// compared is that the key belongs to nothing: without a lease nobody keeps it alive; a job of that id, or its dead letter, needs payload and progress;
// and an inbox entry is current exactly while the job has its revision, since both
// are put by one Txn.
func (t leftoverTxns) remove(kv *mvccpb.KeyValue) (etcdkv.Txn, error) {
	key, rev := string(kv.Key), kv.ModRevision
	p, ok := t.space.Parse(key)
	if !ok {
		return etcdkv.Txn{}, fmt.Errorf("delete %s: %w", key, &fault.InputError{Field: "key", Value: key, Reason: "it is none of ours: only whoever put it knows what it is for"})
	}
	if rev <= 0 {
		return etcdkv.Txn{}, fmt.Errorf("delete %s: %w", key, &fault.InputError{Field: "revision", Value: fmt.Sprint(rev), Reason: "a key that was seen has a mod revision"})
	}
	txn := etcdkv.Txn{
		Origin: "leftover",
		If:     etcdkv.GuardOf(key, rev, keyspace.NonceOf(kv.Value)), //mutant:leftover-guard
		Then:   []clientv3.Op{clientv3.OpDelete(key)},
		Else:   []clientv3.Op{clientv3.OpGet(key)},
	}
	q := t.space.Queue(p.Queue)
	switch {
	case p.Misnamed():
	case p.Kind == "sessions" && kv.Lease != 0, p.Lease() != 0 && kv.Lease != 0 && p.Kind != "assigned" && p.Lease() != kv.Lease:
		txn.If = append(txn.If, clientv3.Compare(clientv3.LeaseValue(key), "=", kv.Lease))
	case p.Kind == "sessions", p.Kind == "lanes", p.Kind == "workers", p.Kind == "done", p.Kind == "refused", p.Name != "" && p.Session != "":
		txn.If = append(txn.If, clientv3.Compare(clientv3.LeaseValue(key), "=", clientv3.NoLease))
	case p.Kind == "payloads", p.Kind == "progress":
		for _, owner := range []string{q.Job(p.ID), q.Dead(p.ID)} {
			txn.If = append(txn.If, clientv3.Compare(clientv3.CreateRevision(owner), "=", 0)) //mutant:leftover-owner
			txn.Else = append(txn.Else, clientv3.OpGet(owner))
		}
	case p.Kind == "assigned":
		txn.If = append(txn.If, clientv3.Compare(clientv3.ModRevision(q.Job(p.ID)), "!=", rev))
		txn.Else = append(txn.Else, clientv3.OpGet(q.Job(p.ID)))
	default:
		return etcdkv.Txn{}, fmt.Errorf("delete %s: %w", key, &fault.InputError{Field: "key", Value: key, Reason: "it is no leftover, whatever else is there"})
	}
	return txn, nil
}
