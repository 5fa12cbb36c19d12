package etcdkv

import (
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Txn is a transaction as a plain value, built by a pure function and carried
// by a lane.Committer. Compares see the state before the Txn.
type Txn struct {
	// If must hold for Then to happen; otherwise Else happens.
	If []clientv3.Cmp
	// Then may put, delete and get single keys, and nest one more Txn.
	Then []clientv3.Op
	// Else only gets single keys: why the Txn lost. In a large batch they are read
	// after it, as they were then; when nobody can, the outcome is [fault.ErrRefused].
	Else []clientv3.Op
	// Origin labels who sends it. After etcd refused a unit outright, units of
	// the same origin travel alone for a while, so that a broken caller cannot
	// hold up the others.
	Origin string
	// InOrder keeps the Txn behind the Txns with InOrder that were handed over before it,
	// whatever keys they write.
	InOrder bool
}

// reads is a key that every permission to send the Txn includes reading: one that it
// compares, or else gets. Every Txn of ours has one.
func (t Txn) reads() string {
	if len(t.If) > 0 {
		return string(t.If[0].KeyBytes())
	}
	for _, op := range t.Then {
		if op.IsGet() {
			return string(op.KeyBytes())
		}
	}
	return ""
}
