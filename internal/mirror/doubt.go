package mirror

import (
	"context"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
)

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
	connection := m.store.Connection
	for len(m.feeds) > 0 && connection(ctx, true) && connection(ctx, false) {
		for try := 0; etcdkv.Pause(ctx, try) == nil; try++ {
			// What is watched may be read; another key need not be.
			if _, err := m.store.Get(ctx, m.feeds[0].prefix, clientv3.WithKeysOnly()); !etcdkv.Passing(err) {
				break
			}
		}
		m.doubts.ring() //mutant:mirror-doubts
	}
}
