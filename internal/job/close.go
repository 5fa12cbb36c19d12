package job

import (
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// Refused keeps the last refusal of a job. There is nothing to compare: it is only
// written once a refusal is proven, and the last one wins.
func (t Txns) Refused(id, value string, lease clientv3.LeaseID) etcdkv.Txn {
	return etcdkv.Txn{Origin: "evidence", Then: []clientv3.Op{clientv3.OpPut(t.Keys.Refused(id), value, clientv3.WithLease(lease))}}
}

// ReturnUnread gives back the claim of a record that a newer program wrote: what is not
// known in it stays as it is, its version too. The guard keeps a record that has moved
// on. It is not ok when the record is not the session's claim, or cannot be parsed.
func (t Txns) ReturnUnread(kv *mvccpb.KeyValue, sid, id string, e Event) (txn etcdkv.Txn, ok bool, err error) {
	r, err := ParseRecord(kv.Value)
	if err != nil || r.Owner != sid || r.ID != id || r.OwnerRev <= 0 {
		return etcdkv.Txn{}, false, nil
	}
	r.Nonce = e.Nonce
	r.endAttempt(e, OutcomeReleased, e.Err)
	value, err := r.reopen(e.At).Record.Encode()
	if err != nil {
		return etcdkv.Txn{}, false, err
	}
	return etcdkv.Txn{
		Origin: "close",
		If:     etcdkv.Fence{Key: string(kv.Key), Token: kv.ModRevision, Nonce: keyspace.NonceOf(kv.Value)}.Cmps(), //mutant:unread-guard
		Then:   []clientv3.Op{clientv3.OpPut(string(kv.Key), string(value)), clientv3.OpDelete(t.Keys.Assigned(sid, id))},
		Else:   []clientv3.Op{clientv3.OpGet(string(kv.Key))},
	}, true, nil
}

// Close ends a claim under its fence: complete, fail, snooze, release, cancel from
// inside. The fence is what refuses a late write of an owner that was superseded.
func (t Txns) Close(f etcdkv.Fence, l Snapshot, n Next, lease clientv3.LeaseID) (etcdkv.Txn, error) {
	fence := f.Cmps() //mutant:close-fence
	return t.move(l, n, fence, lease)
}

// move writes the next record where it belongs and takes the old one away, with
// what lies beside it once nobody needs it. A lease is for what goes to done/.
func (t Txns) move(l Snapshot, n Next, guard []clientv3.Cmp, lease clientv3.LeaseID) (etcdkv.Txn, error) {
	if n.Where == InDone && lease == clientv3.NoLease { //mutant:done-lease
		return etcdkv.Txn{}, fmt.Errorf("keep job %s: a finished job needs a retention lease", l.Record.ID)
	}
	value, err := n.Record.Encode()
	if err != nil {
		return etcdkv.Txn{}, err
	}
	from, to := t.Key(l.Where, l.Record.ID), t.Key(n.Where, l.Record.ID)
	var opts []clientv3.OpOption
	if n.Where == InDone {
		opts = append(opts, clientv3.WithLease(lease))
	}
	txn := etcdkv.Txn{
		Origin: "close",
		If:     guard,
		Then:   []clientv3.Op{put(to, value, opts...)},
		Else:   []clientv3.Op{clientv3.OpGet(from)},
	}
	if from != to {
		txn.Then = append(txn.Then, clientv3.OpDelete(from))
	}
	t.emptyInbox(&txn, l)
	if n.Where == InDone {
		if l.Record.Beside > 0 {
			txn.Then = append(txn.Then, clientv3.OpDelete(t.Keys.Payload(l.Record.ID)))
		}
		if l.HasProgress || l.Record.Attempt > 1 {
			txn.Then = append(txn.Then, clientv3.OpDelete(t.Keys.Progress(l.Record.ID)))
		}
	}
	return txn, nil
}

// Progress writes a report or a checkpoint beside a claimed job; the token stays.
// The second compare keeps reports in order: a late original must not overwrite a
// newer checkpoint of the same claim.
func (t Txns) Progress(f etcdkv.Fence, id, value string, seen int64) etcdkv.Txn {
	key := t.Keys.Progress(id)
	return etcdkv.Txn{
		Origin: "progress",
		If: append(
			f.Cmps(), //mutant:progress-fence
			clientv3.Compare(clientv3.ModRevision(key), "=", seen)), //mutant:progress-order
		Then: []clientv3.Op{clientv3.OpPut(key, value)},
		Else: []clientv3.Op{clientv3.OpGet(f.Key), clientv3.OpGet(key)},
	}
}
