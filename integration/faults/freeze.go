package faults

import (
	"context"
	"fmt"
	"syscall"
)

// Freeze stops a worker's process where it stands (SIGSTOP), as a debugger, a
// hypervisor or a very long pause would. Healing lets it go on (SIGCONT), with
// everything that it believed when it stopped.
type Freeze struct{}

// Name is "freeze".
func (Freeze) Name() string { return "freeze" }

// Inject freezes a random process.
func (f Freeze) Inject(_ context.Context, env *Env) (Heal, error) {
	p, returned, err := borrowOne(env, env.Processes)
	if err != nil {
		return nil, err
	}
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		returned()
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return healing(f.Name(), returned, func(context.Context) error { return p.Signal(syscall.SIGCONT) }), nil
}
