package faults

import (
	"context"
	"fmt"

	"github.com/leasekit/leasekit/integration/etcdtest"
)

// MoveLeader hands the leadership of etcd over to another member. It takes three
// members, all of them running. Nothing is left to heal.
type MoveLeader struct{}

// Name is "move-leader".
func (MoveLeader) Name() string { return "move-leader" }

// Inject moves the leadership to a random other member.
func (f MoveLeader) Inject(ctx context.Context, env *Env) (Heal, error) {
	returned, err := borrowAll(env, []string{quorum})
	if err != nil {
		return nil, err
	}
	defer returned()
	var leader *etcdtest.Member
	var others []*etcdtest.Member
	for _, m := range env.Cluster.Members() {
		switch s := m.Server(); {
		case s == nil:
		case s.Leader() == s.MemberID():
			leader = m
		default:
			others = append(others, m)
		}
	}
	if leader == nil || len(others) == 0 {
		return nil, ErrNotHere
	}
	from, to := leader.Server(), others[env.Rand.IntN(len(others))].Server()
	if err := from.MoveLeader(ctx, uint64(from.MemberID()), uint64(to.MemberID())); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return healing(f.Name(), nil, nothing), nil
}
