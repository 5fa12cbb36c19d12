package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/mirror"
	"github.com/leasekit/leasekit/internal/ready"
)

// mirrors is what a handle watches: always the config, once somebody wants to
// know; and all of the queue, which costs, while somebody needs it, which in mode
// dispatch is only the dispatcher. One mirror does it at a time, so that a process
// asks its quiet watches for one sign of life, not two.
type mirrors struct {
	store     *etcdkv.Store
	keys      keyspace.QueueKeys
	index     *ready.Index
	quiet     time.Duration // of watches: see mirror.New
	scanEvery time.Duration

	watching
	once sync.Once // the first sync holds the jobs for good

	mu     sync.Mutex
	closed bool
	users  int // of all of the queue
	run    *running
}

// watching is how the mirrors end.
type watching struct {
	life context.Context // ends when close begins
	stop context.CancelFunc
	wg   sync.WaitGroup
}

// running is one mirror.
type running struct {
	mirror *mirror.Mirror
	full   bool // all of the queue
	stop   context.CancelFunc
	done   chan struct{}
	err    error // why it ended before it was stopped; valid once done is closed
}

// SyncConfig waits until the config is known, and keeps it so.
func (m *mirrors) SyncConfig(ctx context.Context) error { return m.await(ctx, false) }

// Sync waits until all of the queue is known, and keeps it so until close.
func (m *mirrors) Sync(ctx context.Context) error {
	m.once.Do(func() { m.HoldJobs() })
	return m.await(ctx, true)
}

// NeedJobs is sync until release is called.
func (m *mirrors) NeedJobs(ctx context.Context) (release func(), err error) {
	release = m.HoldJobs()
	if err := m.await(ctx, true); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// HoldJobs keeps all of the queue mirrored until release is called, and starts
// that where need be. It does not wait for it.
func (m *mirrors) HoldJobs() (release func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.users++
	m.ensure(true)
	return sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.users--; m.users == 0 {
			m.run.end()
			m.index.Forget()
			m.run = nil
			m.ensure(false)
		}
	})
}

// ensure returns a running mirror that shows enough, and starts it where need be.
// Called with mu held.
func (m *mirrors) ensure(full bool) *running {
	old := m.run
	if old != nil && (old.full || !full) {
		return old
	}
	if old != nil {
		old.end()
	}
	ctx, stop := context.WithCancel(m.life)
	r := &running{mirror: mirror.New(m.store, m.quiet, m.scanEvery), full: full, stop: stop, done: make(chan struct{})}
	r.mirror.Add(m.keys.Config(), m.index.FeedConfig())
	if full {
		r.mirror.Add(m.keys.Workers(), m.index.FeedWorkers())
		r.mirror.Add(m.store.Keys().Sessions(), m.index.FeedSessions())
		r.mirror.Add(m.keys.Jobs(), m.index.FeedJobs())
	}
	m.run = r
	if m.closed {
		close(r.done)
		return r
	}
	m.wg.Go(func() {
		defer close(r.done)
		r.err = r.mirror.Run(ctx)
	})
	return r
}

// end stops a mirror and waits until it is gone.
func (r *running) end() {
	r.stop()
	<-r.done
}

// await waits until a mirror shows the config, or all of the queue. The mirror may
// be replaced meanwhile.
func (m *mirrors) await(ctx context.Context, full bool) error {
	for {
		if m.life.Err() != nil {
			return fmt.Errorf("read queue %s: %w", m.keys.Name(), fault.ErrClosed)
		}
		m.mu.Lock()
		r := m.ensure(full)
		m.mu.Unlock()
		select {
		case <-r.mirror.Synced():
			return nil
		case <-r.done:
			if r.err != nil {
				return fmt.Errorf("read queue %s: %w", m.keys.Name(), r.err)
			}
		case <-ctx.Done():
			return fmt.Errorf("read queue %s: %w", m.keys.Name(), context.Cause(ctx))
		}
	}
}

// Learn takes up a config that was read beside something else, for a handle that does
// not follow it: where a mirror does, it knows better.
func (m *mirrors) Learn(kvs []*mvccpb.KeyValue) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run == nil {
		m.index.FeedConfig().Reset(kvs, 0)
	}
}

// beginClose lets nothing start any more, and ends what runs.
func (m *mirrors) beginClose() {
	m.stop()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
}
