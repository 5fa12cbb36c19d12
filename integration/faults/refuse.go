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
	return f.Reach.until(env, f.Name(), (*etcdtest.Proxy).Refuse)
}
