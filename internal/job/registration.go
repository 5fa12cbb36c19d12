package job

import (
	"encoding/json"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
)

// WorkerRecord is the value of workers/<sid>.
type WorkerRecord struct {
	Nonce       string   `json:"w"`
	Kinds       []string `json:"kinds,omitempty"` // empty: all
	Concurrency int      `json:"concurrency"`
	// Left marks the tombstone of a worker that serves the queue no more, although its
	// session goes on.
	Left bool `json:"left,omitempty"`
}

// Knows tells whether the worker can work jobs of that kind.
func (w WorkerRecord) Knows(kind string) bool {
	return len(w.Kinds) == 0 || slices.Contains(w.Kinds, kind)
}

// DecodeWorker reads a registration. What cannot be read is no peer.
func DecodeWorker(value []byte) WorkerRecord {
	var w WorkerRecord
	if json.Unmarshal(value, &w) != nil {
		return WorkerRecord{Left: true}
	}
	return w
}

// Register writes a worker's entry on its session's lease.
func (t Txns) Register(me Owner, lease clientv3.LeaseID, seen int64, value string) etcdkv.Txn {
	key, alive := t.Keys.Worker(me.ID), t.Space.Session(me.ID)
	return etcdkv.Txn{
		Origin: "worker",
		If: []clientv3.Cmp{
			clientv3.Compare(clientv3.CreateRevision(alive), "=", me.Rev), //mutant:register-session
			clientv3.Compare(clientv3.ModRevision(key), "=", seen),        //mutant:register-order
		},
		Then: []clientv3.Op{clientv3.OpPut(key, value, clientv3.WithLease(lease))},
		Else: []clientv3.Op{clientv3.OpGet(key), clientv3.OpGet(alive)},
	}
}
