package memetcd

import (
	"encoding/binary"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// AppendCanonical appends an encoding of the present to b: two stores with the same
// one answer every request for the present alike. History is left out, and so are the
// current revision and the versions of keys, which Leasekit never looks at.
//
// Rev maps each revision, and value appends each value. With an order-preserving map
// of the revisions that occur to their ranks, stores that differ only in how many
// revisions went by between what happened are the same: nobody who compares
// revisions, and nothing else, can tell them apart. A nil rev changes nothing, a nil
// value appends the bytes.
func (s *Store) AppendCanonical(b []byte, rev func(int64) int64, value func([]byte, *mvccpb.KeyValue) []byte) []byte {
	if rev == nil {
		rev = func(r int64) int64 { return r }
	}
	if value == nil {
		value = func(b []byte, kv *mvccpb.KeyValue) []byte { return append(b, kv.Value...) }
	}
	kvs := s.All()
	b = binary.AppendUvarint(b, uint64(len(kvs)))
	for _, kv := range kvs {
		b = binary.AppendUvarint(b, uint64(len(kv.Key)))
		b = append(b, kv.Key...)
		b = binary.AppendVarint(b, rev(kv.CreateRevision))
		b = binary.AppendVarint(b, rev(kv.ModRevision))
		b = binary.AppendVarint(b, kv.Lease)
		start := len(b)
		b = value(append(b, 0, 0, 0, 0), kv)
		binary.LittleEndian.PutUint32(b[start:], uint32(len(b)-start))
	}
	for _, l := range s.leases {
		b = binary.AppendVarint(b, l.ID)
	}
	return b
}
