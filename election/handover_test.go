package election_test

import (
	"context"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/election"
	"github.com/leasekit/leasekit/integration/etcdtest"
)

// planned is a client whose calls meet a plan.
func (s *stage) planned(change ...func(*election.Config)) (*etcdtest.Plan, *actor) {
	s.t.Helper()
	plan := &etcdtest.Plan{}
	a := s.enter(etcdtest.Shared(s.t).Client(s.t, plan.DialOptions()...), change...)
	return plan, a
}

// denies refuses what writes the leader's key.
func denies(c etcdtest.Call) etcdtest.Fate {
	if c.Writes("/leader") {
		return etcdtest.Fate{Refuse: rpctypes.ErrGRPCPermissionDenied}
	}
	return etcdtest.Fate{}
}

// A hand-over that etcd denies for a moment is tried again.
func TestHandOverIsTriedAgain(t *testing.T) {
	for name, until := range map[string]func(a *actor) error{
		"resign":   func(a *actor) error { return a.Resign(within(a.s.t)) },
		"transfer": func(a *actor) error { return a.Transfer(within(a.s.t), a.s.candidates(1)[0]) },
		"stop":     func(a *actor) error { return a.leaves() },
	} {
		t.Run(name, func(t *testing.T) {
			s := sharedStage(t)
			plan, a := s.planned()
			first := a.leads()
			b := s.enter(s.client)
			s.candidates(1)
			denied := 0
			plan.Set(func(c etcdtest.Call) etcdtest.Fate {
				f := denies(c)
				if f.Refuse != nil {
					if denied++; denied > 3 {
						return etcdtest.Fate{}
					}
				}
				return f
			})
			must(t, until(a))
			if next := b.leads(); next.Token() <= first.Token() {
				t.Errorf("token %s after %s", next.Token(), first.Token())
			}
			if a.Healthz(nil) != nil {
				t.Errorf("healthz: %v", a.Healthz(nil))
			}
		})
	}
}

// Where it cannot be had, the session is given up: its lease hands over, and the
// candidate comes back with another session.
func TestTheLeaseHandsOverWhatCannotBe(t *testing.T) {
	s := sharedStage(t)
	plan, a := s.planned(expires)
	first := a.leads()
	b := s.enter(s.client)
	s.candidates(1)
	plan.Set(denies)
	if err := a.Resign(within(t)); err == nil {
		t.Error("resign says that it handed over")
	}
	second := b.leads()
	if second.Token() <= first.Token() {
		t.Errorf("token %s after %s", second.Token(), first.Token())
	}
	plan.Set(nil)
	s.candidates(1)
	must(t, b.Resign(within(t)))
	if third := a.leads(); third.Session() == first.Session() {
		t.Error("leads with the session that was given up")
	}
}

// On a shared session what else hangs on it is given up first, and its holders are told
// before that.
func TestASharedSessionIsGivenUpInOrder(t *testing.T) {
	s := sharedStage(t)
	plan := &etcdtest.Plan{}
	client := etcdtest.Shared(t).Client(t, plan.DialOptions()...)
	member := coord.NewSessionKeeper(client, coord.SessionConfig{Root: s.root, TTL: 5 * time.Second})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- member.Run(ctx) }()
	defer func() { stop(); must(t, <-ended) }()
	a := s.enter(client, expires, func(c *election.Config) { c.SessionKeeper = member })
	defer func() { _ = a.leaves() }()
	term := a.leads()
	b := s.enter(s.client)
	s.candidates(1)
	shared, err := member.Session(within(t))
	must(t, err)
	if shared.ID() != term.Session() {
		t.Fatalf("leads with %s, not the member's session", term.Session())
	}
	hold, err := coord.NewLock(shared, "beside").Acquire(within(t))
	must(t, err)
	plan.Set(denies)
	go func() { _ = a.Resign(within(t)) }()
	other, err := coord.OpenSession(within(t), s.client, coord.SessionConfig{Root: s.root, TTL: time.Minute})
	must(t, err)
	defer func() { must(t, other.Close(within(t))) }()
	next, err := coord.NewLock(other, "beside").Acquire(within(t))
	must(t, err)
	select {
	case <-hold.Done():
	default:
		t.Error("the lock has another owner, and its holder does not know")
	}
	if st := s.leader(); st.Owner != term.Session() {
		t.Errorf("the leadership went to %q before what else the session held", st.Owner)
	}
	b.leads()
	must(t, next.Release(within(t)))
	plan.Set(nil)
	if shared.Err() == nil {
		t.Error("the session that was given up lives")
	}
}

// A session with a long TTL, which others share, is not given up for what a short-lived
// trouble denies: it is tried for as long as that session would last.
func TestASharedSessionOutlastsADenial(t *testing.T) {
	s := sharedStage(t)
	plan := &etcdtest.Plan{}
	client := etcdtest.Shared(t).Client(t, plan.DialOptions()...)
	member := coord.NewSessionKeeper(client, coord.SessionConfig{Root: s.root, TTL: time.Minute})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- member.Run(ctx) }()
	defer func() { stop(); must(t, <-ended) }()
	a := s.enter(client, expires, func(c *election.Config) { c.SessionKeeper = member })
	defer func() { _ = a.leaves() }()
	a.leads()
	b := s.enter(s.client)
	s.candidates(1)
	shared, err := member.Session(within(t))
	must(t, err)
	denied := 0
	plan.Set(func(c etcdtest.Call) etcdtest.Fate {
		f := denies(c)
		if f.Refuse != nil {
			if denied++; denied > 12 { // more than the elector's own TTL has time for
				return etcdtest.Fate{}
			}
		}
		return f
	})
	must(t, a.Resign(within(t)))
	b.leads()
	must(t, shared.Err())
}
