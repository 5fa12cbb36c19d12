package memetcd

import (
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// writer collects the writes of one revision.
type writer struct {
	s      *Store
	rev    int64
	kvs    []*mvccpb.KeyValue // with the writes so far; ours once events is not empty
	events []*mvccpb.Event
}

func (s *Store) write() *writer { return &writer{s: s, rev: s.Rev() + 1, kvs: s.All()} }

// end makes the writes current and returns the revision: without writes there is no
// new one.
func (w *writer) end() int64 {
	if len(w.events) > 0 {
		w.s.head = &version{rev: w.rev, kvs: w.kvs, events: w.events, prev: w.s.head}
	}
	return w.s.Rev()
}

// reads is the revision that a read inside of the Txn sees.
func (w *writer) reads() int64 {
	if len(w.events) > 0 {
		return w.rev
	}
	return w.rev - 1
}

// own makes kvs ours to change.
func (w *writer) own() {
	if len(w.events) == 0 {
		w.kvs = append(make([]*mvccpb.KeyValue, 0, len(w.kvs)+2), w.kvs...)
	}
}

func (w *writer) put(r *pb.PutRequest) *pb.PutResponse {
	w.own()
	i, found := find(w.kvs, r.Key)
	kv := &mvccpb.KeyValue{Key: r.Key, Value: r.Value, Lease: r.Lease, CreateRevision: w.rev, ModRevision: w.rev, Version: 1}
	resp := &pb.PutResponse{}
	if found {
		old := w.kvs[i]
		kv.CreateRevision, kv.Version = old.CreateRevision, old.Version+1
		if r.IgnoreValue {
			kv.Value = old.Value
		}
		if r.IgnoreLease {
			kv.Lease = old.Lease
		}
		if r.PrevKv {
			resp.PrevKv = old
		}
		w.kvs[i] = kv
	} else {
		w.kvs = slices.Insert(w.kvs, i, kv)
	}
	w.events = append(w.events, &mvccpb.Event{Type: mvccpb.Event_PUT, Kv: kv})
	return resp
}

func (w *writer) delete(r *pb.DeleteRangeRequest) *pb.DeleteRangeResponse {
	gone := slices.Clone(within(w.kvs, r.Key, r.RangeEnd))
	resp := &pb.DeleteRangeResponse{Deleted: int64(len(gone))}
	if r.PrevKv {
		resp.PrevKvs = gone
	}
	for _, kv := range gone {
		w.remove(kv.Key)
	}
	return resp
}

func (w *writer) remove(key []byte) {
	w.own()
	i, _ := find(w.kvs, key)
	w.kvs = slices.Delete(w.kvs, i, i+1)
	w.events = append(w.events, &mvccpb.Event{Type: mvccpb.Event_DELETE, Kv: &mvccpb.KeyValue{Key: key, ModRevision: w.rev}})
}

// canPut refuses a put that cannot be applied: on a dead lease, or one that keeps
// what is not there.
func (s *Store) canPut(r *pb.PutRequest) error {
	if r.Lease != 0 && !s.Leased(r.Lease) {
		return rpctypes.ErrGRPCLeaseNotFound
	}
	if r.IgnoreValue || r.IgnoreLease {
		if _, found := find(s.All(), r.Key); !found {
			return rpctypes.ErrGRPCKeyNotFound
		}
	}
	return nil
}

func checkPut(r *pb.PutRequest) error {
	switch {
	case len(r.Key) == 0:
		return rpctypes.ErrGRPCEmptyKey
	case r.IgnoreValue && len(r.Value) != 0:
		return rpctypes.ErrGRPCValueProvided
	case r.IgnoreLease && r.Lease != 0:
		return rpctypes.ErrGRPCLeaseProvided
	}
	return nil
}
