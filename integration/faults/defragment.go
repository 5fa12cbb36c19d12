package faults

import (
	"context"
	"time"
)

// Defragment has members rewrite their database, one after the other, again and
// again until it is healed. A member answers nothing meanwhile.
type Defragment struct {
	// Every is the pause between two members; 0 means 100 ms.
	Every time.Duration
}

// Name is "defragment".
func (Defragment) Name() string { return "defragment" }

// Inject defragments one member, and goes on with the next behind.
func (f Defragment) Inject(ctx context.Context, env *Env) (Heal, error) {
	endpoints := env.Cluster.Endpoints()
	i := env.Rand.IntN(len(endpoints))
	return loop(ctx, env, f.Name(), f.Every, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 5*traffic)
		defer cancel()
		_, err := env.Client.Defragment(ctx, endpoints[i%len(endpoints)])
		i++
		return err
	})
}
