package leftover

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
)

// EndLease revokes the lease that a session or a lane hangs on, on behalf of whoever
// was shown its key with that create revision, and returns the lease. A session is over
// then: its owner is told, what it waits for is given up, and what it has claimed is an
// orphan. Of a lane, writes that are under way end with [fault.ErrUnknown].
//
// It returns [fault.ErrRefused] when the key is gone, was created anew, or hangs on no lease,
// and [fault.ErrInvalid] for a key of another kind. It blocks as [etcdkv.Store.Revoke] does.
func EndLease(ctx context.Context, s *etcdkv.Store, key string, created int64) (clientv3.LeaseID, error) {
	if p, ok := s.Keys().Parse(key); !ok || p.Kind != "sessions" && p.Kind != "lanes" {
		return 0, fmt.Errorf("end lease: %w", &fault.InputError{Field: "key", Value: key, Reason: "it is the key of no session and no lane"})
	}
	resp, err := s.Get(ctx, key)
	switch {
	case err != nil:
		return 0, fmt.Errorf("end lease of %s: %w", key, err)
	case len(resp.Kvs) == 0:
		return 0, fmt.Errorf("end lease of %s: %w: it is gone", key, fault.ErrRefused)
	case resp.Kvs[0].CreateRevision != created:
		return 0, fmt.Errorf("end lease of %s: %w: it was created at revision %d, not %d", key, fault.ErrRefused, resp.Kvs[0].CreateRevision, created)
	case resp.Kvs[0].Lease == 0:
		return 0, fmt.Errorf("end lease of %s: %w: it hangs on no lease", key, fault.ErrRefused)
	}
	// Nothing can be compared in the same request. Nothing has to be: the key hangs on
	// this lease as long as either is there, and no other lease will ever have its ID.
	lease := clientv3.LeaseID(resp.Kvs[0].Lease)
	if err := s.Revoke(ctx, lease); err != nil {
		return 0, fmt.Errorf("end lease of %s: %w", key, err)
	}
	return lease, nil
}
