package faults

import (
	"context"

	"github.com/leasekit/leasekit/integration/etcdtest"
)

// Pause keeps all bytes, both ways: connections are black holes. Healing lets them
// go, late.
type Pause struct{ Reach Reach }

// Name is "pause", with the reach.
func (f Pause) Name() string { return "pause" + f.Reach.suffix() }

// Inject pauses a random place.
func (f Pause) Inject(_ context.Context, env *Env) (Heal, error) {
	return f.Reach.until(env, f.Name(), (*etcdtest.Proxy).Pause)
}
