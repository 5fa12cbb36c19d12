package coord_test

import (
	"context"
	"testing"
	"time"

	"github.com/leasekit/leasekit/integration/etcdtest"
)

// Pauses that nobody can mean end neither the process nor the mirror.
func TestMirrorOfCarelessPauses(t *testing.T) {
	t.Parallel()
	client, root := etcdtest.Shared(t).Client(t), etcdtest.Root(t)
	put(t, client, root+"a", "1")
	for _, pause := range []time.Duration{-1, 1} {
		m, mem := newStore(t, client, root).Mirror(pause, pause), newMemory(t)
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
