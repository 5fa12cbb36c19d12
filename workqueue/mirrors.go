package workqueue

import (
	"context"
	"fmt"
	"sync"

	"github.com/leasekit/leasekit/coord"
)

// jobMirror is the part of a queue's mirrors that costs: the events of all jobs. It
// runs while somebody needs it, which in mode dispatch is only the dispatcher.
type jobMirror struct {
	mu     sync.Mutex
	users  int
	mirror *coord.Mirror
	stop   context.CancelFunc
	done   chan struct{}
}

// syncConfig starts the mirror of the config, once, and waits until it is there.
func (q *Queue) syncConfig(ctx context.Context) error {
	q.configOnce.Do(func() { q.runMirror(q.mirrorLife, q.configs, func() {}) })
	return q.await(ctx, q.configs)
}

// sync starts both mirrors, for good, and waits until they show the queue.
func (q *Queue) sync(ctx context.Context) error {
	if err := q.syncConfig(ctx); err != nil {
		return err
	}
	q.syncOnce.Do(func() { q.holdJobs() })
	return q.await(ctx, q.jobs.current())
}

// needJobs is sync until release is called.
func (q *Queue) needJobs(ctx context.Context) (release func(), err error) {
	if err := q.syncConfig(ctx); err != nil {
		return nil, err
	}
	release = q.holdJobs()
	if err := q.await(ctx, q.jobs.current()); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// holdJobs keeps the mirror of the jobs running until release is called, and
// starts it where need be. It does not wait for it.
func (q *Queue) holdJobs() (release func()) {
	j := &q.jobs
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.users == 0 {
		q.startJobs()
	}
	j.users++
	return sync.OnceFunc(func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.users--; j.users == 0 {
			j.stop()
			<-j.done
			q.index.forget()
		}
	})
}

// startJobs is called with the mirror's mu held.
func (q *Queue) startJobs() {
	j := &q.jobs
	ctx, stop := context.WithCancel(q.mirrorLife)
	m := q.store.Mirror(q.cfg.Mirror)
	m.Add(q.keys.Workers(), workerSink{q.index})
	m.Add(q.store.Keys().Sessions(), sessionSink{q.index})
	m.Add(q.keys.Jobs(), jobSink{q.index})
	done := make(chan struct{})
	j.mirror, j.stop, j.done = m, stop, done
	q.runMirror(ctx, m, func() { close(done) })
}

func (j *jobMirror) current() *coord.Mirror {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.mirror
}

// runMirror runs a mirror until ctx ends, and calls over then.
func (q *Queue) runMirror(ctx context.Context, m *coord.Mirror, over func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		over()
		return
	}
	q.mirrorWG.Go(func() {
		defer over()
		_ = m.Run(ctx)
	})
}

// await waits until a mirror shows its keys.
func (q *Queue) await(ctx context.Context, m *coord.Mirror) error {
	select {
	case <-q.mirrorLife.Done():
		return fmt.Errorf("read queue %s: %w", q.name, coord.ErrClosed)
	default:
	}
	select {
	case <-m.Synced():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("read queue %s: %w", q.name, context.Cause(ctx))
	case <-q.mirrorLife.Done():
		return fmt.Errorf("read queue %s: %w", q.name, coord.ErrClosed)
	}
}
