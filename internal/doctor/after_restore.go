package doctor

import (
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/leftover"
)

// Live is a session that has its key.
type Live struct {
	ID    string
	Lease clientv3.LeaseID // 0: none, so that it would never end
	kv    *mvccpb.KeyValue
}

// ListSessions reads all sessions under a root, at one revision.
func ListSessions(ctx context.Context, client *clientv3.Client, root string) ([]Live, error) {
	store, err := etcdkv.NewStore(client, root, nil)
	if err != nil {
		return nil, err
	}
	resp, err := store.List(ctx, store.Keys().Sessions())
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	var all []Live
	for _, kv := range resp.Kvs {
		if p, ok := store.Keys().Parse(string(kv.Key)); ok {
			all = append(all, Live{ID: p.Session, Lease: clientv3.LeaseID(kv.Lease), kv: kv})
		}
	}
	return all, nil
}

// EndSessions revokes the leases of sessions, and deletes the keys of those that have none, or another one's. errs[i] belongs to all[i]. It
// blocks until all are answered or ctx ends. A session that has ended already is no error.
func EndSessions(ctx context.Context, client *clientv3.Client, root string, all []Live) (errs []error) {
	errs = make([]error, len(all))
	store, err := etcdkv.NewStore(client, root, nil)
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	atOnce(len(all), fixAtOnce, func(i int) {
		s := all[i]
		if p, _ := store.Keys().Parse(string(s.kv.Key)); int64(s.Lease) != p.Lease() { // others may hang on that one
			errs[i] = leftover.Delete(ctx, store, []*mvccpb.KeyValue{s.kv})[0]
			return
		}
		errs[i] = store.Revoke(ctx, s.Lease)
	})
	return errs
}
