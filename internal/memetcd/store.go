package memetcd

import (
	"bytes"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Store is the state of one etcd. The zero value is an empty one, at revision 1.
// Copies are independent; one copy must not be used concurrently.
type Store struct {
	head      *version
	compacted int64
	leases    []Lease // by ID; never changed in place
}

// version is the key space as of one revision. It never changes.
type version struct {
	rev    int64
	kvs    []*mvccpb.KeyValue // by key
	events []*mvccpb.Event    // that led here
	prev   *version
}

// firstRev is the revision of an empty etcd.
const firstRev = 1

// Rev is the current revision.
func (s *Store) Rev() int64 {
	if s.head == nil {
		return firstRev
	}
	return s.head.rev
}

// Compacted is the revision of the last compaction, 0 before the first.
func (s *Store) Compacted() int64 { return s.compacted }

// All returns every key, in order. It must not be changed.
func (s *Store) All() []*mvccpb.KeyValue {
	if s.head == nil {
		return nil
	}
	return s.head.kvs
}

// Lookup returns one key, or nil.
func (s *Store) Lookup(key string) *mvccpb.KeyValue {
	kvs := s.All()
	if i, ok := find(kvs, []byte(key)); ok {
		return kvs[i]
	}
	return nil
}

// at returns the keys as of a revision that is readable.
func (s *Store) at(rev int64) []*mvccpb.KeyValue {
	for v := s.head; v != nil; v = v.prev {
		if v.rev <= rev {
			return v.kvs
		}
	}
	return nil
}

func find(kvs []*mvccpb.KeyValue, key []byte) (int, bool) {
	return slices.BinarySearchFunc(kvs, key, func(kv *mvccpb.KeyValue, key []byte) int { return bytes.Compare(kv.Key, key) })
}

// within returns the part of kvs from key to end: one key without an end, all that
// follow when it is "\x00".
func within(kvs []*mvccpb.KeyValue, key, end []byte) []*mvccpb.KeyValue {
	from, found := find(kvs, key)
	switch {
	case len(end) == 0 && !found:
		return nil
	case len(end) == 0:
		return kvs[from : from+1]
	case toTheEnd(end):
		return kvs[from:]
	}
	to, _ := find(kvs, end)
	return kvs[from:max(from, to)]
}

func toTheEnd(end []byte) bool { return len(end) == 1 && end[0] == 0 }

// Range reads keys.
func (s *Store) Range(r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if err := checkRange(r); err != nil {
		return nil, err
	}
	if err := s.readable(r); err != nil {
		return nil, err
	}
	rev := s.Rev()
	if r.Revision > 0 {
		rev = r.Revision
	}
	return answer(within(s.at(rev), r.Key, r.RangeEnd), r, s.Rev()), nil
}

// readable refuses revisions that cannot be read.
func (s *Store) readable(r *pb.RangeRequest) error {
	switch {
	case r.Revision <= 0:
		return nil
	case r.Revision > s.Rev():
		return rpctypes.ErrGRPCFutureRev
	case r.Revision < s.compacted:
		return rpctypes.ErrGRPCCompacted
	}
	return nil
}

// answer makes the answer to a range request of what was found.
func answer(found []*mvccpb.KeyValue, r *pb.RangeRequest, rev int64) *pb.RangeResponse {
	resp := &pb.RangeResponse{Header: &pb.ResponseHeader{Revision: rev}, Count: int64(len(found))}
	if r.CountOnly {
		return resp
	}
	if r.Limit > 0 && int64(len(found)) > r.Limit {
		found, resp.More = found[:r.Limit], true
	}
	resp.Kvs = slices.Clone(found)
	if r.KeysOnly {
		for i, kv := range resp.Kvs {
			// Served from the index, which knows no leases.
			resp.Kvs[i] = &mvccpb.KeyValue{Key: kv.Key, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision, Version: kv.Version}
		}
	}
	return resp
}

func checkRange(r *pb.RangeRequest) error {
	if len(r.Key) == 0 {
		return rpctypes.ErrGRPCEmptyKey
	}
	sorted := r.SortOrder != pb.RangeRequest_NONE && (r.SortTarget != pb.RangeRequest_KEY || r.SortOrder != pb.RangeRequest_ASCEND)
	if sorted || r.MinModRevision|r.MaxModRevision|r.MinCreateRevision|r.MaxCreateRevision != 0 {
		return status.Error(codes.Unimplemented, "memetcd: no sorting but by key, no filters by revision")
	}
	return nil
}

// Compact makes the revisions below rev unreadable.
func (s *Store) Compact(rev int64) error {
	switch {
	case rev <= s.compacted:
		return rpctypes.ErrGRPCCompacted
	case rev > s.Rev():
		return rpctypes.ErrGRPCFutureRev
	}
	s.compacted = rev
	return nil
}

// Put writes one key.
func (s *Store) Put(r *pb.PutRequest) (*pb.PutResponse, error) {
	if err := checkPut(r); err != nil {
		return nil, err
	}
	if err := s.canPut(r); err != nil {
		return nil, err
	}
	w := s.write()
	resp := w.put(r)
	resp.Header = &pb.ResponseHeader{Revision: w.end()}
	return resp, nil
}

// DeleteRange deletes keys.
func (s *Store) DeleteRange(r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	if len(r.Key) == 0 {
		return nil, rpctypes.ErrGRPCEmptyKey
	}
	w := s.write()
	resp := w.delete(r)
	resp.Header = &pb.ResponseHeader{Revision: w.end()}
	return resp, nil
}
