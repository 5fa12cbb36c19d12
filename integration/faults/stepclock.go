package faults

import (
	"context"
	"time"
)

// StepClock moves the wall clock of one client's sessions. Ahead, it is what a
// machine sees that was suspended: its sessions must end. Back, nothing must happen.
// Healing sets the clock right again, which is a step the other way.
type StepClock struct{ By time.Duration }

// Name is "clock-ahead" or "clock-back".
func (f StepClock) Name() string {
	if f.By < 0 {
		return "clock-back"
	}
	return "clock-ahead"
}

// Inject steps a random clock.
func (f StepClock) Inject(_ context.Context, env *Env) (Heal, error) {
	c, returned, err := borrowOne(env, env.Clocks)
	if err != nil {
		return nil, err
	}
	c.step(f.By)
	return healing(f.Name(), returned, now(func() { c.step(-f.By) })), nil
}
