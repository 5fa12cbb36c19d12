package coord_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/mirror"
)

// Pauses that nobody can mean end neither the process nor the mirror.
func TestMirrorOfCarelessPauses(t *testing.T) {
	t.Parallel()
	client, root := etcdtest.Shared(t).Client(t), etcdtest.Root(t)
	put(t, client, root+"a", "1")
	for _, pause := range []time.Duration{-1, 1, math.MaxInt64, math.MaxInt64 / 3} {
		m, mem := mirror.New(newStore(t, client, root), pause, pause), newMemory(t)
		m.Add(root, mem)
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- m.Run(ctx) }()
		done(t, "sync", m.Synced())
		put(t, client, root+"b", pause.String())
		mem.waitFor(root+"b", pause.String())
		cancel()
		wantErr(t, "run", <-ran, nil)
	}
}

// A TTL that no sum of it can hold is granted, or refused by etcd, but never cut short.
func TestGrantOfALongTTL(t *testing.T) {
	t.Parallel()
	client, root := etcdtest.Shared(t).Client(t), etcdtest.Root(t)
	store := newStore(t, client, root)
	if id, ttl, err := store.Grant(t.Context(), math.MaxInt64); err == nil {
		t.Errorf("got lease %x of %v", id, ttl)
	}
	const century = 100 * 365 * 24 * time.Hour
	id, ttl, err := store.Grant(t.Context(), century-1) // rounded up to whole seconds
	if err != nil || ttl != century {
		t.Fatalf("got %v, %v", ttl, err)
	}
	wantErr(t, "revoke", store.Revoke(t.Context(), id), nil)
}
