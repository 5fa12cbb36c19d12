package faults

import (
	"context"
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
	return strike(env, f.Name(), syscall.SIGSTOP, func(p Process, _ context.Context) error { return p.Signal(syscall.SIGCONT) })
}
