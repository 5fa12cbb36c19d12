package faults_test

import (
	"testing"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/integration/faults"
)

// stoppedOf counts the members that are down.
func stoppedOf(env *faults.Env) int {
	n := 0
	for _, m := range env.Cluster.Members() {
		if m.Server() == nil {
			n++
		}
	}
	return n
}

func TestStopAndRestart(t *testing.T) {
	t.Parallel()
	s := newStage(t, etcdtest.New(t, etcdtest.Config{}))
	if err := <-s.put(t, "kept"); err != nil {
		t.Fatal(err)
	}
	for _, f := range []faults.Fault{faults.Stop{}, faults.Stop{Abrupt: true}, faults.Restart{}} {
		heal := inject(t, f, s.Env)
		if n := stoppedOf(s.Env); n != 1 {
			t.Errorf("%s: %d members are down, want 1", f.Name(), n)
		}
		wantNotHere(t, faults.Stop{}, s.Env)
		wantNotHere(t, faults.Restart{}, s.Env)
		mend(t, heal)
		s.serves(t)
		if got := s.value(t); got != "kept" {
			t.Errorf("%s: the store has %q", f.Name(), got)
		}
	}
	wantNotHere(t, faults.Cut{}, s.Env) // alone, there is nobody to be cut off
	wantNotHere(t, faults.MoveLeader{}, s.Env)
}

func TestThreeMembers(t *testing.T) {
	t.Parallel()
	s := newStage(t, etcdtest.New(t, etcdtest.Config{Members: 3}))
	before := s.Cluster.Leader(t)
	mend(t, inject(t, faults.MoveLeader{}, s.Env))
	if after := s.Cluster.Leader(t); after == before {
		t.Errorf("%s leads still", after.Name())
	}

	heal := inject(t, faults.Cut{}, s.Env)
	wantNotHere(t, faults.MoveLeader{}, s.Env)
	wantNotHere(t, faults.Stop{}, s.Env)
	s.Cluster.Leader(t) // the majority goes on
	if got := s.value(t); got != "" {
		t.Errorf("the store has %q", got)
	}
	mend(t, heal)

	heal = inject(t, faults.Stop{Abrupt: true}, s.Env)
	s.Cluster.Leader(t)
	wantNotHere(t, faults.Cut{}, s.Env)
	mend(t, heal)

	heal = inject(t, faults.Restart{}, s.Env)
	if n := stoppedOf(s.Env); n != 3 {
		t.Errorf("%d members are down, want 3", n)
	}
	mend(t, heal)
	s.serves(t)
}
