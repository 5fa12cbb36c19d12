package job

import (
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
)

// EnqueueSeen is what is known of earlier jobs of the same id: the mod revisions of
// what they left, or that the id was drawn just now, so that there was none.
type EnqueueSeen struct {
	Done, Dead int64
	Drawn      bool
}

// Enqueue creates a job. The compares close the races with another enqueue of the
// same id (CreateRev), and with a job of that id that finishes, or is requeued,
// between our read and our write (done, dead): nobody else has an id that was drawn.
func (t Txns) Enqueue(r *Record, payload []byte, seen EnqueueSeen) (etcdkv.Txn, error) {
	value, err := r.Encode()
	if err != nil {
		return etcdkv.Txn{}, err
	}
	job, done, dead := t.Keys.Job(r.ID), t.Keys.Done(r.ID), t.Keys.Dead(r.ID)
	txn := etcdkv.Txn{
		Origin: "enqueue",
		// A job's age is the revision that creates it.
		InOrder: true,
		If:      []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(job), "=", 0)}, //mutant:enqueue-new
		Then:    []clientv3.Op{put(job, value)},
		Else:    []clientv3.Op{clientv3.OpGet(job)},
	}
	if r.Beside > 0 {
		txn.Then = append(txn.Then, clientv3.OpPut(t.Keys.Payload(r.ID), string(payload)))
	}
	if seen.Drawn {
		return txn, nil
	}
	txn.If = append(txn.If,
		clientv3.Compare(clientv3.ModRevision(done), "=", seen.Done), //mutant:enqueue-done
		clientv3.Compare(clientv3.ModRevision(dead), "=", seen.Dead)) //mutant:enqueue-dead
	txn.Else = append(txn.Else, clientv3.OpGet(done), clientv3.OpGet(dead))
	if seen != (EnqueueSeen{}) {
		txn.Then = append(txn.Then, clientv3.OpDelete(done), clientv3.OpDelete(dead), clientv3.OpDelete(t.Keys.Progress(r.ID)))
		if r.Beside == 0 {
			txn.Then = append(txn.Then, clientv3.OpDelete(t.Keys.Payload(r.ID)))
		}
	}
	return txn, nil
}
