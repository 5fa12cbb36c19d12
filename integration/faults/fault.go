package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/integration/etcdtest"
)

// ErrNotHere means that a fault cannot happen now: the Env lacks what it breaks,
// or others have borrowed all of it, or nothing was under way to be hit. Nothing
// is broken then.
var ErrNotHere = errors.New("not possible here and now")

// Fault is one kind of trouble. Faults are plain values and keep no state.
type Fault interface {
	// Name is unique among the faults of a Menu, and the same in every run.
	Name() string
	// Inject makes the trouble and returns what ends it. It blocks until the trouble
	// has begun, for loops until their first round is over. After an error nothing is
	// broken. One Inject at a time per Env.
	Inject(ctx context.Context, env *Env) (Heal, error)
}

// Heal ends a fault and blocks until what it broke is whole again. It may be called
// again: after success it does nothing, after an error it tries once more. Safe for
// concurrent use, with other Heals and with Inject.
type Heal func(ctx context.Context) error

// Process is a worker in a process of its own.
type Process interface {
	// Signal sends a signal. It is an error when the process has ended.
	Signal(sig syscall.Signal) error
	// Restart blocks until the process has ended, which it must be about to, and
	// starts another in its place.
	Restart(ctx context.Context) error
}

// Env is what there is to break. Faults whose part of it is empty answer
// ErrNotHere. It must not be copied.
type Env struct {
	// Cluster is the etcd of everybody.
	Cluster *etcdtest.Cluster
	// Client is an operator's, past all proxies; with auth, root's.
	Client *clientv3.Client
	// Root is the prefix of the queue's keys.
	Root string
	// Rand draws victims.
	Rand *rand.Rand
	// Networks are the proxies of each client, one per member.
	Networks [][]*etcdtest.Proxy
	// Processes are workers.
	Processes []Process
	// Clocks are those that sessions read.
	Clocks []*Clock
	// User and Password are what the workers log in with; empty without auth.
	User, Password string
	// Role is the workers' role, and Grants those of its rights that may be taken away.
	Role   string
	Grants []Grant
	// Plans are those of clients in this process.
	Plans []*etcdtest.Plan
	// Seen tells up to which revision history may be compacted; nil means all of it.
	// Whoever reads all of history needs it.
	Seen func() int64

	mu       sync.Mutex
	borrowed map[any]bool
}

// quorum stands for the members as a whole: whoever takes one away borrows it.
const quorum = "quorum"

// borrow takes what is free of things, in their order, for one fault; returned
// gives it back.
func borrow[T comparable](env *Env, things []T) (mine []T, returned func()) {
	env.mu.Lock()
	defer env.mu.Unlock()
	if env.borrowed == nil {
		env.borrowed = map[any]bool{}
	}
	for _, x := range things {
		if !env.borrowed[x] {
			env.borrowed[x] = true
			mine = append(mine, x)
		}
	}
	return mine, func() {
		env.mu.Lock()
		defer env.mu.Unlock()
		for _, x := range mine {
			delete(env.borrowed, x)
		}
	}
}

// borrowAll is borrow for things that are of no use apart.
func borrowAll[T comparable](env *Env, things []T) (returned func(), err error) {
	mine, returned := borrow(env, things)
	if len(mine) < len(things) || len(things) == 0 {
		returned()
		return nil, ErrNotHere
	}
	return returned, nil
}

// borrowOne borrows a random one of things.
func borrowOne[T comparable](env *Env, things []T) (one T, returned func(), err error) {
	for _, i := range env.Rand.Perm(len(things)) {
		if returned, err = borrowAll(env, things[i:i+1]); err == nil {
			return things[i], returned, nil
		}
	}
	return one, nil, ErrNotHere
}

// healing makes a Heal that keeps Heal's contract of one that does the work, and
// gives back what was borrowed.
func healing(name string, returned func(), work Heal) Heal {
	var mu sync.Mutex
	healed := false
	return func(ctx context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if healed {
			return nil
		}
		if err := work(ctx); err != nil {
			return fmt.Errorf("heal %s: %w", name, err)
		}
		healed = true
		if returned != nil {
			returned()
		}
		return nil
	}
}

// nothing is the work of healing what is over already.
func nothing(context.Context) error { return nil }

// now makes a Heal's work of what cannot fail.
func now(f func()) Heal {
	return func(context.Context) error {
		f()
		return nil
	}
}

// hold blocks for d, or until ctx ends.
func hold(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
