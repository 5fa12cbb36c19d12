package queue

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/lane"
	"github.com/leasekit/leasekit/internal/ready"
)

// Core is the machinery of a handle on one queue: what it writes with, what it knows, and
// the leases that done jobs hang on. Safe for concurrent use.
type Core struct {
	// MaxPayload is the payload limit in bytes.
	MaxPayload int
	own        job.Settings // this process's, which the queue's config may overrule
	Store      *etcdkv.Store
	Txns       job.Txns
	Committer  *lane.Committer
	Index      *ready.Index
	Retention  *retention
	Backlog    backlog
	Mirrors    *mirrors
	Seq        atomic.Uint64
	Log        *zap.Logger
	Lifetime
}

// Lifetime is how a core ends.
type Lifetime struct {
	Life   context.Context // ends with Close, at its end
	cancel context.CancelFunc
	mu     sync.Mutex // orders behind and Close
	closed bool
	wg     sync.WaitGroup

	closeOnce sync.Once
	closeErr  error
}

// Keys are those of the queue.
func (q *Core) Keys() keyspace.QueueKeys { return q.Txns.Keys }

// Name is the queue's name.
func (q *Core) Name() string { return q.Txns.Keys.Name() }

// New returns the machinery of a queue, of which nothing runs yet.
func New(store *etcdkv.Store, name, identity string, own job.Settings, quiet, scanEvery time.Duration, log *zap.Logger) *Core {
	keys := store.Keys().Queue(name)
	q := &Core{
		own: own, Store: store, Txns: job.Txns{Keys: keys, Space: store.Keys()},
		Committer: lane.NewCommitter(store, identity), Index: ready.NewIndex(store.Keys(), name),
		Log: log.With(zap.String("queue", name)),
	}
	q.Life, q.cancel = context.WithCancel(context.Background())
	q.Mirrors = &mirrors{store: store, keys: keys, index: q.Index, quiet: quiet, scanEvery: scanEvery}
	q.Mirrors.life, q.Mirrors.stop = context.WithCancel(context.Background())
	q.Retention = newRetention(store, q.keeps, q.Log)
	return q
}

// CloseWithin is how long Close waits for what is still being written; ending what is
// under way then takes up to a second more.
const CloseWithin = 2 * time.Second

// Close stops the mirror, settles what is still being written, and joins every
// goroutine of the handle, within about 3 s. Workers must have stopped. Closing
// twice is fine.
func (q *Core) Close() error {
	q.closeOnce.Do(func() {
		q.mu.Lock()
		q.closed = true // nothing starts behind the Wait
		q.mu.Unlock()
		q.Mirrors.beginClose()
		ctx, cancel := context.WithTimeout(context.Background(), CloseWithin)
		defer cancel()
		// Results and evidence on their way are carried to their end first.
		stop := context.AfterFunc(ctx, q.cancel)
		q.wg.Wait()
		stop()
		q.cancel()
		q.Mirrors.wg.Wait()
		q.closeErr = errors.Join(q.Committer.Close(ctx), q.Retention.close(ctx))
	})
	return q.closeErr
}

// Behind runs f in the background, for what must outlive its caller. Close waits
// for it, and ends ctx when its time is over; false means that the handle is
// closed.
func (q *Core) Behind(f func(ctx context.Context)) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.wg.Go(func() { f(q.Life) })
	return true
}
