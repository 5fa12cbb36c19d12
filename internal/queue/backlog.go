package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/leasekit/leasekit/internal/job"
)

const (
	// backlogShare is the share of etcd's quota at which enqueues are refused: what
	// is queued must still be completed, and completing writes too.
	backlogShare = 0.8
	// backlogEvery is how often the size is asked for while jobs are enqueued.
	backlogEvery = 10 * time.Second
	// backlogSoon is how often it is asked for when many are, one question per
	// backlogChecks jobs: a small quota fills in less than a second.
	backlogSoon   = 50 * time.Millisecond
	backlogChecks = 200
)

// backlog guards etcd's quota: a full etcd refuses completions too.
type backlog struct {
	mu     sync.Mutex
	asked  time.Time
	asking bool
	checks int // since the last answer
	err    error
}

// Check refuses when the last answer was too large, and asks anew now and then,
// behind the caller.
func (b *backlog) Check(q *Core) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	every := backlogEvery
	b.checks++
	switch {
	case b.err != nil:
		every = time.Second // soon after somebody made room
	case b.checks >= backlogChecks:
		every = backlogSoon
	}
	if !b.asking && time.Since(b.asked) > every {
		b.asking = q.Behind(func(ctx context.Context) { b.ask(ctx, q) })
	}
	return b.err
}

func (b *backlog) ask(ctx context.Context, q *Core) {
	size, quota, err := q.Store.Usage(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asking, b.checks, b.asked = false, 0, time.Now()
	switch {
	case err != nil:
		// Not knowing is no reason to refuse: etcd still has its own limit.
		q.Log.Debug("ask for etcd's size", zap.Error(err))
	case quota > 0 && float64(size) > backlogShare*float64(quota): //mutant:enqueue-quota
		b.err = fmt.Errorf("%w: %d of %d bytes are used", job.ErrBacklogFull, size, quota)
	default:
		b.err = nil
	}
}
