package faults

import (
	"context"
	"fmt"
)

// ExpireTokens makes every auth token of the workers' user invalid at the same
// time, in all members, as their expiry would: it changes the password, to what it
// was. Nothing is left to heal: clients log in again.
type ExpireTokens struct{}

// Name is "expire-tokens".
func (ExpireTokens) Name() string { return "expire-tokens" }

// Inject makes the tokens invalid.
func (f ExpireTokens) Inject(ctx context.Context, env *Env) (Heal, error) {
	if env.User == "" {
		return nil, ErrNotHere
	}
	if _, err := env.Client.UserChangePassword(ctx, env.User, env.Password); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return healing(f.Name(), nil, nothing), nil
}
