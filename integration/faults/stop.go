package faults

import (
	"context"

	"github.com/leasekit/leasekit/integration/etcdtest"
)

// Stop ends a member of etcd: cleanly, after it has handed its leadership over, or
// abruptly. Healing starts it again on its data.
type Stop struct {
	// Abrupt lets it neither hand over nor finish anything.
	Abrupt bool
}

// Name is "stop-member", or "kill-member" when it is abrupt.
func (f Stop) Name() string {
	if f.Abrupt {
		return "kill-member"
	}
	return "stop-member"
}

// Inject stops a random member.
func (f Stop) Inject(_ context.Context, env *Env) (Heal, error) {
	returned, err := borrowAll(env, []string{quorum})
	if err != nil {
		return nil, err
	}
	members := env.Cluster.Members()
	m := members[env.Rand.IntN(len(members))]
	f.stop(m)
	return healing(f.Name(), returned, func(ctx context.Context) error { return startAgain(ctx, m) }), nil
}

func (f Stop) stop(m *etcdtest.Member) {
	if f.Abrupt {
		m.Kill()
		return
	}
	m.Stop()
}

// startAgain starts a member unless it runs.
func startAgain(ctx context.Context, m *etcdtest.Member) error {
	if m.Server() != nil {
		return nil
	}
	return m.Restart(ctx)
}
