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
