package faults

import (
	"context"
	"errors"
	"sync"
)

// Restart stops all of etcd, cleanly or abruptly as drawn. Healing starts it again
// on its data.
type Restart struct{}

// Name is "restart-all".
func (Restart) Name() string { return "restart-all" }

// Inject stops all members at the same time.
func (f Restart) Inject(_ context.Context, env *Env) (Heal, error) {
	returned, err := borrowAll(env, []string{quorum})
	if err != nil {
		return nil, err
	}
	stop := Stop{Abrupt: env.Rand.IntN(2) == 0}
	members := env.Cluster.Members()
	var stopping sync.WaitGroup
	for _, m := range members {
		stopping.Go(func() { stop.stop(m) })
	}
	stopping.Wait()
	return healing(f.Name(), returned, func(ctx context.Context) error {
		errs := make([]error, len(members))
		var starting sync.WaitGroup
		for i, m := range members { // together, since one alone has no majority
			starting.Go(func() { errs[i] = startAgain(ctx, m) })
		}
		starting.Wait()
		return errors.Join(errs...)
	}), nil
}
