package embedetcd_test

import (
	"context"
	"sync"
	"testing"

	"github.com/leasekit/leasekit/internal/embedetcd"
)

func waitLeader(t *testing.T, c *embedetcd.Cluster) *embedetcd.Member {
	t.Helper()
	m, err := c.WaitLeader(within(t))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestKilledLeaderIsReplacedAndRejoins(t *testing.T) {
	c := start(t, embedetcd.Config{Members: 3, Fast: true})
	put(t, client(t, c.Endpoints()...), "k", "1")

	old := waitLeader(t, c)
	old.Kill()
	next := waitLeader(t, c)
	if next == old {
		t.Fatalf("killed leader %s still leads", old.Name())
	}
	put(t, client(t, next.Endpoint()), "k", "2")

	if err := old.Restart(within(t)); err != nil {
		t.Fatal(err)
	}
	wantValue(t, client(t, old.Endpoint()), "k", "2")
}

func TestStoppedLeaderHandsOver(t *testing.T) {
	c := start(t, embedetcd.Config{Members: 3, Fast: true})
	old := waitLeader(t, c)
	old.Stop()
	if next := waitLeader(t, c); next == old {
		t.Fatalf("stopped leader %s still leads", old.Name())
	}
}

func TestMoveLeader(t *testing.T) {
	c := start(t, embedetcd.Config{Members: 3, Fast: true})
	for _, m := range c.Members() {
		if err := c.MoveLeader(within(t), m); err != nil {
			t.Fatal(err)
		}
		if got := waitLeader(t, c); got != m {
			t.Fatalf("got leader %s, want %s", got.Name(), m.Name())
		}
	}
}

func TestCutLeaderLosesItsMajorityUntilMended(t *testing.T) {
	c := start(t, embedetcd.Config{Members: 3, Fast: true})
	old := waitLeader(t, c)
	old.Cut()
	var next *embedetcd.Member
	for next = waitLeader(t, c); next == old; next = waitLeader(t, c) {
		// The others have not noticed yet: they agree on the old one.
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
	}
	put(t, client(t, next.Endpoint()), "k", "v")
	old.Mend()
	// A linearizable read through the mended member needs its peers.
	wantValue(t, client(t, old.Endpoint()), "k", "v")
}

func TestCutSurvivesRestart(t *testing.T) {
	c := start(t, embedetcd.Config{Members: 3, Fast: true})
	m := c.Members()[0]
	m.Kill()
	m.Cut()
	waitLeader(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Restart(ctx) }()
	// Writes go on without it; it cannot become ready, as it hears nobody.
	cl := client(t, c.Members()[1].Endpoint(), c.Members()[2].Endpoint())
	for range 20 {
		put(t, cl, "k", "v")
	}
	select {
	case err := <-done:
		t.Fatalf("restart of a cut member returned %v, want it to wait", err)
	default:
	}
	cancel()
	if err := <-done; err == nil {
		t.Fatal("restart of a cut member: got nil after cancel, want an error")
	}
	m.Mend()
	if err := m.Restart(within(t)); err != nil {
		t.Fatal(err)
	}
	wantValue(t, client(t, m.Endpoint()), "k", "v")
}

func TestAllMembersRestartTogether(t *testing.T) {
	c := start(t, embedetcd.Config{Members: 3, Fast: true})
	put(t, client(t, c.Endpoints()...), "k", "v")
	ctx := within(t)
	var wg sync.WaitGroup
	for _, m := range c.Members() {
		wg.Go(m.Kill)
	}
	wg.Wait()
	for _, m := range c.Members() {
		wg.Go(func() {
			if err := m.Restart(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	wantValue(t, client(t, c.Endpoints()...), "k", "v")
}

func TestCloseAbortsRestart(t *testing.T) {
	c := start(t, embedetcd.Config{Members: 3, Fast: true})
	for _, m := range c.Members() {
		m.Kill()
	}
	done := make(chan error, 1)
	go func() { done <- c.Members()[0].Restart(context.WithoutCancel(t.Context())) }()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("restart without a majority: got nil, want an error once closed")
	}
}
