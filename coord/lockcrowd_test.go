package coord_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
)

// 50 sessions, as of so many processes, add to a counter that is read and written
// under one lock.
func TestSessionsOnOneLockCountExactly(t *testing.T) {
	t.Parallel()
	const sessions = 50
	root := etcdtest.Root(t)
	client := etcdtest.Shared(t).Client(t)
	counter := "/counter" + root
	var wg sync.WaitGroup
	for range sessions {
		s := lockSession(t, root)
		wg.Go(func() { increment(within(t), t, s, client, counter) })
	}
	wg.Wait()
	wantValue(t, client, counter, strconv.Itoa(sessions))
	wantNothing(t, client, root+"locks/")
}

func wantValue(t *testing.T, client *clientv3.Client, key, want string) {
	t.Helper()
	resp, err := client.Get(within(t), key)
	if err != nil || len(resp.Kvs) != 1 || string(resp.Kvs[0].Value) != want {
		t.Errorf("%s: got %v %v, want %s", key, resp, err, want)
	}
}

// wantNothing blocks until there are no keys under prefix.
func wantNothing(t *testing.T, client *clientv3.Client, prefix string) {
	t.Helper()
	for ctx := within(t); ; {
		resp, err := client.Get(ctx, prefix, clientv3.WithPrefix())
		if err != nil {
			t.Fatalf("left under %s: %v", prefix, err)
		}
		if resp.Count == 0 {
			return
		}
	}
}

// While the lock goes from hand to hand along the line, newcomers try for it all
// the time: none gets it before the last of the line.
func TestNobodyOvertakesTheLine(t *testing.T) {
	t.Parallel()
	const inLine = 8
	root := etcdtest.Root(t)
	ctx := within(t)
	first := lockSession(t, root)
	lock := coord.NewLock(first, "l")
	held, err := lock.Acquire(ctx)
	must(t, err)
	var served atomic.Int32
	var line, newcomers sync.WaitGroup
	for i := range inLine {
		s := lockSession(t, root)
		line.Go(func() {
			h, err := coord.NewLock(s, "l").Acquire(ctx)
			if err != nil {
				t.Errorf("acquire: %v", err)
				return
			}
			if got := int(served.Add(1)); got != i+1 {
				t.Errorf("waiter %d was served as number %d", i+1, got)
			}
			if err := h.Release(ctx); err != nil {
				t.Error(err)
			}
		})
		awaitWaiters(ctx, t, lock, i+1)
	}
	over := make(chan struct{})
	for range 4 {
		s := lockSession(t, root)
		newcomers.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				h, err := coord.NewLock(s, "l").TryAcquire(ctx)
				if err == nil {
					if n := served.Load(); n < inLine {
						t.Errorf("a newcomer overtook %d who waited", inLine-n)
					}
					err = h.Release(ctx)
				}
				if err != nil && !errors.Is(err, coord.ErrHeld) {
					t.Error(err)
				}
			}
		})
	}
	must(t, held.Release(ctx))
	line.Wait()
	close(over)
	newcomers.Wait()
}

// Holders and waiters die at random: their leases are revoked, or their connections
// are cut. Nobody is wedged, tokens rise, and what was committed under the lock is
// exact.
func TestDyingHoldersAndWaitersWedgeNobody(t *testing.T) {
	t.Parallel()
	const workers, rounds = 8, 6
	cluster := etcdtest.New(t, etcdtest.Config{Proxies: true})
	direct := cluster.Client(t)
	root := etcdtest.Root(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	ctx := within(t)
	var wg sync.WaitGroup
	var applied atomic.Int64
	for n := range workers {
		w := &mortal{
			t: t, direct: direct, proxied: cluster.ProxiedClient(t), proxy: cluster.Proxy(0),
			root: root, counter: "/counter" + root, applied: &applied,
			rng: rand.New(rand.NewPCG(seed, uint64(n))),
		}
		wg.Go(func() { w.live(ctx, rounds) })
	}
	wg.Wait()
	if applied.Load() < workers*rounds/2 {
		t.Errorf("only %d of %d lives came to a commit", applied.Load(), workers*rounds)
	}
	wantValue(t, direct, "/counter"+root, strconv.FormatInt(applied.Load(), 10))
	// And the next one gets it, when the last lease has ended.
	s := open(t, direct, coord.SessionConfig{Root: root, TTL: 10 * time.Second})
	h, err := coord.NewLock(s, "l").Acquire(ctx)
	must(t, err)
	must(t, h.Release(ctx))
}

// mortal lives several lives, each with a session of its own.
type mortal struct {
	t               *testing.T
	direct, proxied *clientv3.Client
	proxy           *etcdtest.Proxy
	root, counter   string
	applied         *atomic.Int64
	rng             *rand.Rand
}

func (m *mortal) live(ctx context.Context, rounds int) {
	for range rounds {
		s, err := coord.OpenSession(ctx, m.proxied, coord.SessionConfig{Root: m.root, TTL: 10 * time.Second})
		for err != nil && ctx.Err() == nil { // its connection was cut for another's death
			s, err = coord.OpenSession(ctx, m.proxied, coord.SessionConfig{Root: m.root, TTL: 10 * time.Second})
		}
		if err != nil {
			m.t.Errorf("open session: %v", err)
			return
		}
		m.once(ctx, s)
		closeCtx, cancel := context.WithTimeout(ctx, 5*time.Second)
		_ = s.Close(closeCtx) // what it could not clean up ends with the lease
		cancel()
	}
}

// once acquires, counts and releases, and may die anywhere on the way.
func (m *mortal) once(ctx context.Context, s *coord.Session) {
	fate := m.rng.IntN(4)
	if fate == 0 { // as a waiter, or as a holder, whatever it is by then
		time.AfterFunc(time.Duration(m.rng.IntN(50))*time.Millisecond, func() { _, _ = m.direct.Revoke(ctx, s.Lease()) })
	}
	h, err := coord.NewLock(s, "l").Acquire(ctx)
	if err != nil {
		if !errors.Is(err, coord.ErrSessionLost) {
			m.t.Errorf("acquire: %v", err)
		}
		return
	}
	if fate == 1 {
		m.proxy.Drop()
	}
	resp, err := m.direct.Get(ctx, m.counter)
	if err != nil {
		m.t.Error(err)
		return
	}
	n := 0
	if len(resp.Kvs) == 1 {
		n, _ = strconv.Atoi(string(resp.Kvs[0].Value))
	}
	if fate == 2 {
		_, _ = m.direct.Revoke(ctx, s.Lease())
	}
	switch _, err := h.Commit(ctx, clientv3.OpPut(m.counter, strconv.Itoa(n+1))); {
	case err == nil:
		m.applied.Add(1)
	case !errors.Is(err, coord.ErrFenced):
		m.t.Errorf("commit: %v", err)
	}
	if fate != 3 { // dies without releasing: its lease is all that ends it
		_ = h.Release(ctx)
	}
}
