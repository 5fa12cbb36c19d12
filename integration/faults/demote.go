package faults

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Grant is a range that a role may read and write.
type Grant struct{ Key, End string }

// Demote takes a part of their rights from the workers' role: what they hold there they
// can neither renew nor hand over. Healing gives it back.
type Demote struct{}

// Name is "demote".
func (Demote) Name() string { return "demote" }

// Inject takes a random one of the grants that may be taken.
func (f Demote) Inject(ctx context.Context, env *Env) (Heal, error) {
	g, returned, err := borrowOne(env, env.Grants)
	if err != nil {
		return nil, err
	}
	heal := healing(f.Name(), returned, func(ctx context.Context) error { return g.give(ctx, env) })
	if _, err := env.Client.RoleRevokePermission(ctx, env.Role, g.Key, g.End); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), joinHeal(ctx, err, heal))
	}
	return heal, nil
}

// give gives a range to the role; it may have it already.
func (g Grant) give(ctx context.Context, env *Env) error {
	_, err := env.Client.RoleGrantPermission(ctx, env.Role, g.Key, g.End, clientv3.PermissionType(clientv3.PermReadWrite))
	return err
}
