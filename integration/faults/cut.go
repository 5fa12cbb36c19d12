package faults

import "context"

// Cut cuts a member off its peers, while clients still reach it. It takes three
// members. Healing mends that.
type Cut struct{}

// Name is "cut-member".
func (Cut) Name() string { return "cut-member" }

// Inject cuts a random member off.
func (f Cut) Inject(_ context.Context, env *Env) (Heal, error) {
	members := env.Cluster.Members()
	if len(members) < 3 {
		return nil, ErrNotHere
	}
	returned, err := borrowAll(env, []string{quorum})
	if err != nil {
		return nil, err
	}
	m := members[env.Rand.IntN(len(members))]
	m.Cut()
	return healing(f.Name(), returned, now(m.Mend)), nil
}
