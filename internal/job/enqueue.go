package job

import (
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
)

// ImportSeen are the mod revisions of what was found under the ID, by place; 0 where
// nothing was.
type ImportSeen [3]int64

// Restored is a job that is imported, with what lies beside it and, where it is done,
// the lease that it hangs on.
type Restored struct {
	Record            *Record
	Where             Place
	Payload, Progress string
	Lease             clientv3.LeaseID
}

// Restore puts a job where it was, in the place of what was seen there.
func (t Txns) Restore(im Restored, seen ImportSeen) (etcdkv.Txn, error) {
	value, err := im.Record.Encode()
	if err != nil {
		return etcdkv.Txn{}, err
	}
	id := im.Record.ID
	txn := etcdkv.Txn{Origin: "import", InOrder: true} // a job's age is the revision that creates it
	var opts []clientv3.OpOption
	if im.Where == InDone {
		if im.Lease == clientv3.NoLease {
			return etcdkv.Txn{}, fmt.Errorf("keep job %s: a finished job needs a retention lease", id)
		}
		opts = append(opts, clientv3.WithLease(im.Lease))
	}
	txn.Then = append(txn.Then, clientv3.OpPut(t.Key(im.Where, id), string(value), opts...))
	for where := InJobs; where <= InDead; where++ {
		key := t.Key(where, id)
		txn.If = append(txn.If, clientv3.Compare(clientv3.ModRevision(key), "=", seen[where])) //mutant:import-seen
		txn.Else = append(txn.Else, clientv3.OpGet(key))
		if seen[where] != 0 && where != im.Where {
			txn.Then = append(txn.Then, clientv3.OpDelete(key))
		}
	}
	t.besides(&txn, t.Keys.Payload(id), im.Payload, seen)
	t.besides(&txn, t.Keys.Progress(id), im.Progress, seen)
	return txn, nil
}

// besides puts what belongs to the job, or deletes what belonged to the one before.
func (t Txns) besides(txn *etcdkv.Txn, key, value string, seen ImportSeen) {
	switch {
	case value != "":
		txn.Then = append(txn.Then, clientv3.OpPut(key, value))
	case seen != ImportSeen{}:
		txn.Then = append(txn.Then, clientv3.OpDelete(key))
	}
}

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
