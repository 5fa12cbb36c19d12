package faults

import (
	"context"
	"time"

	"github.com/leasekit/leasekit/integration/etcdtest"
)

// Slow delays everything, both ways, until it is healed.
type Slow struct {
	Reach Reach
	// By is the delay each way; 0 means a random one up to 200 ms.
	By time.Duration
}

// Name is "slow", with the reach.
func (f Slow) Name() string { return "slow" + f.Reach.suffix() }

// Inject slows a random place down.
func (f Slow) Inject(_ context.Context, env *Env) (Heal, error) {
	proxies, returned, err := f.Reach.borrow(env)
	if err != nil {
		return nil, err
	}
	by := f.By
	if by == 0 {
		by = time.Millisecond * time.Duration(1+env.Rand.IntN(200))
	}
	each(proxies, func(p *etcdtest.Proxy) { p.Slow(by) })
	return healing(f.Name(), returned, now(func() { each(proxies, (*etcdtest.Proxy).Heal) })), nil
}
