package faults

import (
	"context"

	"github.com/leasekit/leasekit/integration/etcdtest"
)

// Late keeps requests on their way until their sender has given them up and gone
// on by other connections. Healing delivers them: writes of another time, which
// must be refused wherever they no longer fit.
type Late struct{ Reach Reach }

// Name is "late", with the reach.
func (f Late) Name() string { return "late" + f.Reach.suffix() }

// Inject keeps the requests of a random place, blocks until there is one, for 2
// seconds at most, and cuts the senders off.
func (f Late) Inject(ctx context.Context, env *Env) (Heal, error) {
	proxies, returned, err := f.Reach.borrow(env)
	if err != nil {
		return nil, err
	}
	each(proxies, (*etcdtest.Proxy).PauseRequests)
	if err := anyOf(ctx, proxies, (*etcdtest.Proxy).WaitRequests); err != nil {
		each(proxies, (*etcdtest.Proxy).Heal)
		returned()
		return nil, err
	}
	each(proxies, (*etcdtest.Proxy).Sever)
	each(proxies, (*etcdtest.Proxy).Heal)
	return healing(f.Name(), returned, func(ctx context.Context) error {
		for _, p := range proxies {
			if err := p.Deliver(ctx); err != nil {
				return err
			}
		}
		return nil
	}), nil
}
