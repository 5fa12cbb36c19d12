package faults

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/keyspace"
)

// Revoke ends the lease of a live session, as an operator would who takes its
// process for dead. Nothing is left to heal: the process opens another session.
type Revoke struct{}

// Name is "revoke".
func (Revoke) Name() string { return "revoke" }

// Inject revokes the lease of a random session.
func (f Revoke) Inject(ctx context.Context, env *Env) (Heal, error) {
	keys, err := keyspace.New(env.Root)
	if err != nil {
		return nil, err
	}
	resp, err := env.Client.Get(ctx, keys.Sessions(), clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	if len(resp.Kvs) == 0 {
		return nil, ErrNotHere
	}
	lease := clientv3.LeaseID(resp.Kvs[env.Rand.IntN(len(resp.Kvs))].Lease)
	if _, err := env.Client.Revoke(ctx, lease); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return healing(f.Name(), nil, nothing), nil
}
