package coord

import (
	"context"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// A restore takes etcd away from its clients, which then watch on from where they were.
// What they watch on may be another history: one below that revision, of which they hear
// nothing, or one that has passed it by then, of which they hear all but what came before.
// The first shows in the header of any answer, the second in nothing that etcd says. So
// whoever watches looks again behind every connection that was lost.

// bell rings for all who wait: what next returned is closed when it rings.
type bell struct {
	mu   sync.Mutex
	rung chan struct{}
}

func (b *bell) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung == nil {
		b.rung = make(chan struct{})
	}
	return b.rung
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung != nil {
		close(b.rung)
		b.rung = nil
	}
}

// doubt asks behind every lost connection whether etcd's history went back, which the
// store then says, and has all lists made soon in any case: not at once, since many
// processes lose their connections together.
func (m *Mirror) doubt(ctx context.Context) {
	connection := m.store.backend.connection
	for len(m.feeds) > 0 && connection(ctx, true) && connection(ctx, false) {
		for try := 0; pause(ctx, try) == nil; try++ {
			// What is watched may be read; another key need not be.
			if _, err := m.store.Get(ctx, m.feeds[0].prefix, clientv3.WithKeysOnly()); !passing(err) {
				break
			}
		}
		m.doubts.ring() //mutant:mirror-doubts
	}
}

// untilInterrupted hands on what a watch says until the connection is lost. What it has
// said has happened, so no linearizable answer may be below it.
func (s *Store) untilInterrupted(ctx context.Context, watch func(context.Context) clientv3.WatchChan) clientv3.WatchChan {
	ctx, cancel := context.WithCancel(ctx)
	out, before := make(chan clientv3.WatchResponse), s.high.read()
	go func() {
		s.backend.connection(ctx, false)
		cancel() //mutant:watch-interrupted
	}()
	in := watch(ctx)
	go func() {
		defer close(out)
		defer cancel()
		for resp := range in {
			if n := len(resp.Events); n > 0 {
				s.high.raise(before, resp.Events[n-1].Kv.ModRevision, resp.Header.ClusterId)
			}
			select {
			case out <- resp:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}
