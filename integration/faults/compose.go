package faults

import (
	"context"
	"errors"
	"strings"
	"time"
)

// joinHeal heals what an error left half done, and reports both.
func joinHeal(ctx context.Context, err error, heals ...Heal) error {
	for i := len(heals) - 1; i >= 0; i-- {
		err = errors.Join(err, heals[i](ctx))
	}
	return err
}

// composed is a fault made of others.
type composed struct {
	name   string
	inject func(ctx context.Context, env *Env) (Heal, error)
}

func (f composed) Name() string                                       { return f.name }
func (f composed) Inject(ctx context.Context, env *Env) (Heal, error) { return f.inject(ctx, env) }

// Both is a and b at the same time: b is injected while a is in force, and they are
// healed in a random order. When one cannot be injected, neither stays.
func Both(a, b Fault) Fault {
	return composed{"both(" + a.Name() + "," + b.Name() + ")", func(ctx context.Context, env *Env) (Heal, error) {
		first, err := a.Inject(ctx, env)
		if err != nil {
			return nil, err
		}
		second, err := b.Inject(ctx, env)
		if err != nil {
			return nil, joinHeal(ctx, err, first)
		}
		if env.Rand.IntN(2) == 0 {
			first, second = second, first
		}
		return func(ctx context.Context) error { return errors.Join(first(ctx), second(ctx)) }, nil
	}}
}

// During is inner, from its beginning to its end, while outer is in force: inner is
// healed after d, in Inject. Healing heals outer.
func During(outer, inner Fault, d time.Duration) Fault {
	return composed{"during(" + outer.Name() + "," + inner.Name() + ")", func(ctx context.Context, env *Env) (Heal, error) {
		heal, err := outer.Inject(ctx, env)
		if err != nil {
			return nil, err
		}
		if err := whole(ctx, env, inner, d); err != nil {
			return nil, joinHeal(ctx, err, heal)
		}
		return heal, nil
	}}
}

// Sequence is one fault after the other, each in force for d, in Inject. The last
// one is healed like any other.
func Sequence(d time.Duration, fs ...Fault) Fault {
	names := make([]string, len(fs))
	for i, f := range fs {
		names[i] = f.Name()
	}
	return composed{"sequence(" + strings.Join(names, ",") + ")", func(ctx context.Context, env *Env) (Heal, error) {
		if len(fs) == 0 {
			return nil, ErrNotHere
		}
		for _, f := range fs[:len(fs)-1] {
			if err := whole(ctx, env, f, d); err != nil {
				return nil, err
			}
		}
		return fs[len(fs)-1].Inject(ctx, env)
	}}
}

// whole injects a fault, holds it and heals it.
func whole(ctx context.Context, env *Env, f Fault, d time.Duration) error {
	heal, err := f.Inject(ctx, env)
	if err != nil {
		return err
	}
	return joinHeal(ctx, hold(ctx, d), heal)
}
