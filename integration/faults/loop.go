package faults

import (
	"context"
	"fmt"
	"time"
)

// defaultPace is the pause of a loop between two rounds.
const defaultPace = 100 * time.Millisecond

// loop does round once, then again and again until it is healed. Healing waits for
// the round under way. Other loops of that name are kept out.
func loop(ctx context.Context, env *Env, name string, pace time.Duration, round func(context.Context) error) (Heal, error) {
	returned, err := borrowAll(env, []string{name})
	if err != nil {
		return nil, err
	}
	if err := round(ctx); err != nil {
		returned()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if pace == 0 {
		pace = defaultPace
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for hold(life, pace) == nil {
			_ = round(life) // the next one may fare better
		}
	}()
	return healing(name, returned, func(context.Context) error {
		stop()
		<-done
		return nil
	}), nil
}
