package coord

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// claimReader reads claims without a session.
type claimReader struct {
	store *etcdkv.Store
	keys  keyspace.ClaimKeys
}

// read looks at all keys of the name, and at which owners live, at one revision:
// an owner that has handed its claim over and closed is not a dead owner.
func (c claimReader) read(ctx context.Context) (claimView, error) {
	for try := 0; ; try++ {
		v, err := c.readOnce(ctx)
		if err == nil || !etcdkv.IsCompacted(err) || try >= 2 {
			return v, err
		}
	}
}

func (c claimReader) readOnce(ctx context.Context) (claimView, error) {
	slots := clientv3.OpGet(c.keys.Only)
	if c.keys.Only == "" {
		slots = clientv3.OpGet(c.keys.Slots, clientv3.WithPrefix())
	}
	resp, err := c.store.Read(ctx, slots, clientv3.OpGet(c.keys.Wait, clientv3.WithPrefix()))
	if err != nil {
		return claimView{}, err
	}
	v := viewOf(c.keys, resp.Responses[0].GetResponseRange().Kvs, resp.Responses[1].GetResponseRange().Kvs, resp.Header.Revision)
	return v, c.readOwners(ctx, &v)
}

// readOwners finds out which owners are gone, as of the view. For whoever takes a
// dead owner's claim it is a hint: the Txn proves it.
func (c claimReader) readOwners(ctx context.Context, v *claimView) error {
	var gets []clientv3.Op
	for _, s := range v.slots {
		if s.Owner != "" {
			gets = append(gets, clientv3.OpGet(c.store.Keys().Session(s.Owner), clientv3.WithRev(v.rev)))
		}
	}
	if len(gets) == 0 {
		return nil
	}
	resp, err := c.store.Read(ctx, gets...)
	if err != nil {
		return err
	}
	i := 0
	for j := range v.slots {
		if s := &v.slots[j]; s.Owner != "" {
			kvs := resp.Responses[i].GetResponseRange().Kvs
			s.dead = len(kvs) != 1 || kvs[0].CreateRevision != s.OwnerRev
			i++
		}
	}
	return nil
}

func (c claimReader) state(ctx context.Context) (ClaimState, error) {
	v, err := c.read(ctx)
	if err != nil {
		return ClaimState{}, fmt.Errorf("read %s: %w", c.keys.What, err)
	}
	return stateOf(c.keys, v, 0), nil
}
