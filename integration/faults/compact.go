package faults

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// Compact throws history away up to now, or as far as Env.Seen allows, again and
// again until it is healed: watches that lag must list anew, and outcomes that were
// to be read at an old revision cannot be any more.
type Compact struct {
	// Every is the pause between two rounds; 0 means 100 ms.
	Every time.Duration
}

// Name is "compact".
func (Compact) Name() string { return "compact" }

// Inject compacts once, and goes on behind.
func (f Compact) Inject(ctx context.Context, env *Env) (Heal, error) {
	return loop(ctx, env, f.Name(), f.Every, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, traffic)
		defer cancel()
		resp, err := env.Client.Get(ctx, env.Root)
		if err != nil {
			return err
		}
		rev := resp.Header.Revision
		if env.Seen != nil {
			rev = min(rev, env.Seen())
		}
		if rev <= 0 {
			return ErrNotHere
		}
		_, err = env.Client.Compact(ctx, rev)
		if errors.Is(rpctypes.Error(err), rpctypes.ErrCompacted) {
			return nil // it is as wanted
		}
		return err
	})
}
