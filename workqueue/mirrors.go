package workqueue

import (
	"context"
	"fmt"
	"sync"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/mirror"
)

// mirrors is what a handle watches: always the config, once somebody wants to
// know; and all of the queue, which costs, while somebody needs it, which in mode
// dispatch is only the dispatcher. One mirror does it at a time, so that a process
// asks its quiet watches for one sign of life, not two.
type mirrors struct {
	mu    sync.Mutex
	users int // of all of the queue
	run   *running
}

// running is one mirror.
type running struct {
	mirror *mirror.Mirror
	full   bool // all of the queue
	stop   context.CancelFunc
	done   chan struct{}
	err    error // why it ended before it was stopped; valid once done is closed
}

// syncConfig waits until the config is known, and keeps it so.
func (q *Queue) syncConfig(ctx context.Context) error {
	return q.await(ctx, false)
}

// sync waits until all of the queue is known, and keeps it so until Close.
func (q *Queue) sync(ctx context.Context) error {
	q.syncOnce.Do(func() { q.holdJobs() })
	return q.await(ctx, true)
}

// needJobs is sync until release is called.
func (q *Queue) needJobs(ctx context.Context) (release func(), err error) {
	release = q.holdJobs()
	if err := q.await(ctx, true); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// holdJobs keeps all of the queue mirrored until release is called, and starts
// that where need be. It does not wait for it.
func (q *Queue) holdJobs() (release func()) {
	m := &q.mirrors
	m.mu.Lock()
	defer m.mu.Unlock()
	m.users++
	q.ensure(true)
	return sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.users--; m.users == 0 {
			m.run.end()
			q.index.Forget()
			m.run = nil
			q.ensure(false)
		}
	})
}

// ensure returns a running mirror that shows enough, and starts it where need be.
// Called with the mirrors' mu held.
func (q *Queue) ensure(full bool) *running {
	old := q.mirrors.run
	if old != nil && (old.full || !full) {
		return old
	}
	if old != nil {
		old.end()
	}
	ctx, stop := context.WithCancel(q.mirrorLife)
	r := &running{mirror: mirror.New(q.store, q.cfg.Quiet, q.cfg.ScanEvery), full: full, stop: stop, done: make(chan struct{})}
	r.mirror.Add(q.keys.Config(), q.index.FeedConfig())
	if full {
		r.mirror.Add(q.keys.Workers(), q.index.FeedWorkers())
		r.mirror.Add(q.store.Keys().Sessions(), q.index.FeedSessions())
		r.mirror.Add(q.keys.Jobs(), q.index.FeedJobs())
	}
	q.mirrors.run = r
	q.mu.Lock() // orders this and Close
	defer q.mu.Unlock()
	if q.closed {
		close(r.done)
		return r
	}
	q.mirrorWG.Go(func() {
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
func (q *Queue) await(ctx context.Context, full bool) error {
	for {
		if q.mirrorLife.Err() != nil {
			return fmt.Errorf("read queue %s: %w", q.name, coord.ErrClosed)
		}
		q.mirrors.mu.Lock()
		r := q.ensure(full)
		q.mirrors.mu.Unlock()
		select {
		case <-r.mirror.Synced():
			return nil
		case <-r.done:
			if r.err != nil {
				return fmt.Errorf("read queue %s: %w", q.name, r.err)
			}
		case <-ctx.Done():
			return fmt.Errorf("read queue %s: %w", q.name, context.Cause(ctx))
		}
	}
}
