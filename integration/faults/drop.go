package faults

import (
	"context"

	"github.com/leasekit/leasekit/integration/etcdtest"
)

// Drop cuts all connections once; new ones can be made at once. Nothing is left to
// heal.
type Drop struct{ Reach Reach }

// Name is "drop", with the reach.
func (f Drop) Name() string { return "drop" + f.Reach.suffix() }

// Inject drops the connections of a random place.
func (f Drop) Inject(_ context.Context, env *Env) (Heal, error) {
	proxies, returned, err := f.Reach.borrow(env)
	if err != nil {
		return nil, err
	}
	each(proxies, (*etcdtest.Proxy).Drop)
	return healing(f.Name(), returned, nothing), nil
}
