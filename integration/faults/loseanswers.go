package faults

import (
	"context"
	"time"

	"github.com/leasekit/leasekit/integration/etcdtest"
)

// traffic is how long a fault waits for something to hit.
const traffic = 2 * time.Second

// LoseAnswers lets requests take effect and loses what etcd answers: whoever asked
// cannot know. Healing cuts the connections with what they hold, for good.
type LoseAnswers struct{ Reach Reach }

// Name is "lose-answers", with the reach.
func (f LoseAnswers) Name() string { return "lose-answers" + f.Reach.suffix() }

// Inject keeps the answers of a random place, and blocks until there is one, for 2
// seconds at most.
func (f LoseAnswers) Inject(ctx context.Context, env *Env) (Heal, error) {
	proxies, returned, err := f.Reach.borrow(env)
	if err != nil {
		return nil, err
	}
	each(proxies, (*etcdtest.Proxy).PauseAnswers)
	lose := func() {
		each(proxies, (*etcdtest.Proxy).Drop)
		each(proxies, (*etcdtest.Proxy).Heal)
	}
	if err := anyOf(ctx, proxies, (*etcdtest.Proxy).WaitAnswers); err != nil {
		lose()
		returned()
		return nil, err
	}
	return healing(f.Name(), returned, now(lose)), nil
}

// anyOf blocks until one of the proxies holds something back.
func anyOf(ctx context.Context, proxies []*etcdtest.Proxy, wait func(*etcdtest.Proxy, context.Context, int) error) error {
	ctx, cancel := context.WithTimeout(ctx, traffic)
	defer cancel()
	held := make(chan error, len(proxies))
	for _, p := range proxies {
		go func() { held <- wait(p, ctx, 1) }()
	}
	found := false
	for range proxies {
		if <-held == nil {
			found = true
			cancel() // the others have nothing more to wait for
		}
	}
	if !found {
		return ErrNotHere
	}
	return nil
}
