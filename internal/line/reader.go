package line

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// Reader reads claims without a session.
type Reader struct {
	Store *etcdkv.Store
	Keys  keyspace.ClaimKeys
}

// Read looks at all keys of the name, and at which owners live, at one revision:
// an owner that has handed its claim over and closed is not a dead owner.
func (c Reader) Read(ctx context.Context) (View, error) {
	for try := 0; ; try++ {
		v, err := c.readOnce(ctx)
		if err == nil || !etcdkv.IsCompacted(err) || try >= 2 {
			return v, err
		}
	}
}

func (c Reader) readOnce(ctx context.Context) (View, error) {
	slots := clientv3.OpGet(c.Keys.Only)
	if c.Keys.Only == "" {
		slots = clientv3.OpGet(c.Keys.Slots, clientv3.WithPrefix())
	}
	resp, err := c.Store.Read(ctx, slots, clientv3.OpGet(c.Keys.Wait, clientv3.WithPrefix()))
	if err != nil {
		return View{}, err
	}
	v := viewOf(c.Keys, resp.Responses[0].GetResponseRange().Kvs, resp.Responses[1].GetResponseRange().Kvs, resp.Header.Revision)
	return v, c.readOwners(ctx, &v)
}

// readOwners finds out which owners are gone, as of the view. For whoever takes a
// dead owner's claim it is a hint: the Txn proves it.
func (c Reader) readOwners(ctx context.Context, v *View) error {
	var gets []clientv3.Op
	for _, s := range v.Slots {
		if s.Owner != "" {
			gets = append(gets, clientv3.OpGet(c.Store.Keys().Session(s.Owner), clientv3.WithRev(v.Rev)))
		}
	}
	if len(gets) == 0 {
		return nil
	}
	resp, err := c.Store.Read(ctx, gets...)
	if err != nil {
		return err
	}
	i := 0
	for j := range v.Slots {
		if s := &v.Slots[j]; s.Owner != "" {
			kvs := resp.Responses[i].GetResponseRange().Kvs
			s.dead = len(kvs) != 1 || kvs[0].CreateRevision != s.OwnerRev
			i++
		}
	}
	return nil
}

// State reads who holds the claim, or its first permit, and who waits.
func (c Reader) State(ctx context.Context) (State, error) {
	v, err := c.Read(ctx)
	if err != nil {
		return State{}, fmt.Errorf("read %s: %w", c.Keys.What, err)
	}
	return stateOf(c.Keys, v, 0), nil
}
