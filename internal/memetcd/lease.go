package memetcd

import (
	"cmp"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// Lease is a lease that is alive.
type Lease struct {
	ID int64
	// TTL is in seconds, as it was asked for. It does not run.
	TTL int64
}

// maxTTL is the longest that etcd grants.
const maxTTL = 9_000_000_000

// Leases returns the leases, by ID. It must not be changed.
func (s *Store) Leases() []Lease { return s.leases }

func (s *Store) lease(id int64) (int, bool) {
	return slices.BinarySearchFunc(s.leases, id, func(l Lease, id int64) int { return cmp.Compare(l.ID, id) })
}

// Leased tells whether a lease is alive: what a keepalive finds out.
func (s *Store) Leased(id int64) bool {
	_, ok := s.lease(id)
	return ok
}

// Grant grants a lease under an ID that the caller chooses.
func (s *Store) Grant(id, ttl int64) error {
	i, found := s.lease(id)
	switch {
	case ttl > maxTTL:
		return rpctypes.ErrGRPCLeaseTTLTooLarge
	case found:
		return rpctypes.ErrGRPCLeaseExist
	}
	s.leases = slices.Insert(slices.Clone(s.leases), i, Lease{ID: id, TTL: ttl})
	return nil
}

// Revoke ends a lease and deletes its keys, in one revision. Its running out does
// the same.
func (s *Store) Revoke(id int64) error {
	i, found := s.lease(id)
	if !found {
		return rpctypes.ErrGRPCLeaseNotFound
	}
	s.leases = slices.Delete(slices.Clone(s.leases), i, i+1)
	w := s.write()
	for _, kv := range s.All() {
		if kv.Lease == id {
			w.remove(kv.Key)
		}
	}
	w.end()
	return nil
}
