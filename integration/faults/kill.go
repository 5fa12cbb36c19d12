package faults

import (
	"context"
	"fmt"
	"syscall"
)

// Kill ends a worker's process in the middle of whatever it does (SIGKILL). Healing
// starts another in its place.
type Kill struct{}

// Name is "kill".
func (Kill) Name() string { return "kill" }

// Inject kills a random process.
func (f Kill) Inject(_ context.Context, env *Env) (Heal, error) {
	p, returned, err := borrowOne(env, env.Processes)
	if err != nil {
		return nil, err
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		returned()
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return healing(f.Name(), returned, p.Restart), nil
}
