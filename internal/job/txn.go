package job

import (
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// Txns builds the Txn of each transition, as a plain value. It knows no etcd.
type Txns struct {
	Keys  keyspace.QueueKeys
	Space keyspace.Keyspace
}

// Key is where the record of a job lies.
func (t Txns) Key(where Place, id string) string {
	switch where {
	case InDone:
		return t.Keys.Done(id)
	case InDead:
		return t.Keys.Dead(id)
	}
	return t.Keys.Job(id)
}

// put is a put of bytes that nobody changes any more: they are not copied.
func put(key string, value []byte, opts ...clientv3.OpOption) clientv3.Op {
	op := clientv3.OpPut(key, "", opts...)
	op.WithValueBytes(value)
	return op
}

// guard holds while the record is as it was read.
func (t Txns) guard(l Snapshot) []clientv3.Cmp {
	return etcdkv.Fence{Key: t.Key(l.Where, l.Record.ID), Token: l.Rev, Nonce: l.Record.Nonce}.Cmps() //mutant:job-guard
}
