package faults

import (
	"context"
	"slices"
	"time"

	"github.com/leasekit/leasekit/integration/etcdtest"
)

// swizzleGap is the pause between one connection and the next.
const swizzleGap = 50 * time.Millisecond

// Swizzle pauses the ways of a random half of all clients to all members, one after
// the other. Healing lets them go one after the other, in another order.
type Swizzle struct{}

// Name is "swizzle".
func (Swizzle) Name() string { return "swizzle" }

// Inject pauses one way after the other.
func (f Swizzle) Inject(ctx context.Context, env *Env) (Heal, error) {
	free, returned := borrow(env, f.half(env))
	if len(free) == 0 {
		return nil, ErrNotHere
	}
	for _, p := range free {
		p.Pause()
		if err := hold(ctx, swizzleGap); err != nil {
			each(free, (*etcdtest.Proxy).Heal)
			returned()
			return nil, err
		}
	}
	order := env.Rand.Perm(len(free))
	return healing(f.Name(), returned, func(ctx context.Context) error {
		for _, i := range order {
			free[i].Heal()
			if err := hold(ctx, swizzleGap); err != nil {
				return err
			}
		}
		return nil
	}), nil
}

// half draws half of the networks, rounded up, and shuffles their proxies.
func (Swizzle) half(env *Env) []*etcdtest.Proxy {
	perm := env.Rand.Perm(len(env.Networks))
	var all []*etcdtest.Proxy
	for _, i := range perm[:(len(perm)+1)/2] {
		all = slices.Concat(all, env.Networks[i])
	}
	env.Rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}
