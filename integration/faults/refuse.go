package faults

import (
	"context"

	"github.com/leasekit/leasekit/integration/etcdtest"
)

// Refuse cuts all connections, and new ones as soon as they are made, until it is
// healed.
type Refuse struct{ Reach Reach }

// Name is "refuse", with the reach.
func (f Refuse) Name() string { return "refuse" + f.Reach.suffix() }

// Inject refuses the connections of a random place.
func (f Refuse) Inject(_ context.Context, env *Env) (Heal, error) {
	proxies, returned, err := f.Reach.borrow(env)
	if err != nil {
		return nil, err
	}
	each(proxies, (*etcdtest.Proxy).Refuse)
	return healing(f.Name(), returned, now(func() { each(proxies, (*etcdtest.Proxy).Heal) })), nil
}
