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
	return strike(env, f.Name(), syscall.SIGKILL, Process.Restart)
}

// strike sends a signal to a random process; heal is what ends that.
func strike(env *Env, name string, sig syscall.Signal, heal func(Process, context.Context) error) (Heal, error) {
	p, returned, err := borrowOne(env, env.Processes)
	if err != nil {
		return nil, err
	}
	if err := p.Signal(sig); err != nil {
		returned()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return healing(name, returned, func(ctx context.Context) error { return heal(p, ctx) }), nil
}
