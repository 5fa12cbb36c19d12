package workqueue

import (
	"context"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/etcdkv"
)

// keysPerLease bounds the keys on one retention lease: under auth, attaching a
// key costs as much as there are keys on the lease already.
const keysPerLease = 256

// retention hands out the leases that done jobs, and evidence of refused writes,
// hang on. Leases rotate: by age, so that no key lives much shorter than the
// retention, and by number of keys. The next one is granted ahead, so that no
// commit waits for a grant. When this process keeps more jobs or bytes than it
// may, the oldest lease is revoked. The leases outlive the process.
type retention struct {
	store *etcdkv.Store
	cfg   Config
	log   *zap.Logger

	life   context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	current *retainer
	next    *retainer
	grants  *grant      // under way, or the last one
	full    []*retainer // oldest first
	jobs    int
	bytes   int
}

// retainer is one lease and what hangs on it.
type retainer struct {
	id      clientv3.LeaseID
	granted time.Time
	jobs    int
	bytes   int
}

// Grant is the getting of one lease.
type grant struct {
	done chan struct{}
	err  error // valid once done is closed
}

func newRetention(store *etcdkv.Store, cfg Config, log *zap.Logger) *retention {
	r := &retention{store: store, cfg: cfg, log: log}
	r.life, r.cancel = context.WithCancel(context.Background())
	return r
}

// rotateAfter is the age at which a lease takes no more keys.
func (r *retention) rotateAfter() time.Duration { return r.cfg.Retention / 4 }

// fits tells whether a lease may take one more key of n bytes. Leases are small
// parts of what may be kept, since they are what trim can give up.
func (r *retention) fits(c *retainer, n int) bool {
	return c != nil && time.Since(c.granted) <= r.rotateAfter() && /*mutant:retention-rotates*/ c.jobs < r.perLease() &&
		(c.jobs == 0 || c.bytes+n <= r.cfg.RetainBytes/4)
}

func (r *retention) perLease() int { return min(keysPerLease, max(r.cfg.RetainJobs/4, 1)) }

// lease returns a lease for one more key of n bytes. It waits only when no lease
// could be granted ahead.
func (r *retention) lease(ctx context.Context, n int) (clientv3.LeaseID, error) {
	for {
		r.mu.Lock()
		id, wait := r.attach(n)
		r.mu.Unlock()
		if wait == nil {
			return id, nil
		}
		select {
		case <-wait.done:
			if wait.err != nil {
				return 0, fmt.Errorf("get a retention lease: %w", wait.err)
			}
		case <-ctx.Done():
			return 0, fmt.Errorf("get a retention lease: %w", context.Cause(ctx))
		}
	}
}

// attach counts a key on the current lease, rotating it where it is full or old;
// without one it returns the grant to wait for. Called with mu held.
func (r *retention) attach(n int) (clientv3.LeaseID, *grant) {
	c := r.current
	if !r.fits(c, n) {
		if r.next != nil && !r.fits(r.next, n) {
			r.next = nil // unused, and too old by now: it ends by itself
		}
		if r.next == nil {
			return clientv3.NoLease, r.grant()
		}
		if c != nil {
			r.full = append(r.full, c)
		}
		r.current, r.next = r.next, nil
		c = r.current
	}
	c.jobs, c.bytes = c.jobs+1, c.bytes+n
	r.jobs, r.bytes = r.jobs+1, r.bytes+n
	if r.next == nil && (2*c.jobs >= r.perLease() || !r.fits(c, c.bytes)) {
		r.grant()
	}
	r.trim()
	return c.id, nil
}

// Grant gets the next lease in the background. Called with mu held.
func (r *retention) grant() *grant {
	if r.grants != nil {
		select {
		case <-r.grants.done:
		default:
			return r.grants
		}
	}
	g := &grant{done: make(chan struct{})}
	r.grants = g
	if r.life.Err() != nil {
		g.err = coord.ErrClosed
		close(g.done)
		return g
	}
	r.wg.Go(func() {
		// A key lives between the retention and a quarter more.
		id, _, err := r.store.Grant(r.life, r.cfg.Retention+r.rotateAfter())
		r.mu.Lock()
		defer r.mu.Unlock()
		defer close(g.done)
		if g.err = err; err == nil {
			r.next = &retainer{id: id, granted: time.Now()}
		}
	})
	return g
}

// trim revokes the oldest leases while too much is kept. Called with mu held.
func (r *retention) trim() {
	for len(r.full) > 0 {
		oldest := r.full[0]
		aged := time.Since(oldest.granted) > r.cfg.Retention+r.rotateAfter()
		if !aged && /*mutant:retention-jobs*/ r.jobs <= r.cfg.RetainJobs && /*mutant:retention-bytes*/ r.bytes <= r.cfg.RetainBytes {
			return
		}
		r.full = r.full[1:]
		r.jobs, r.bytes = r.jobs-oldest.jobs, r.bytes-oldest.bytes
		if aged || r.life.Err() != nil {
			continue
		}
		r.wg.Go(func() {
			if err := r.store.Revoke(r.life, oldest.id); err != nil {
				// It ends by itself, only later.
				r.log.Debug("revoke retention lease", zap.Error(err))
			}
		})
	}
}

// lost takes a lease out of use that etcd does not know any more.
func (r *retention) lost(id clientv3.LeaseID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current != nil && r.current.id == id {
		r.jobs, r.bytes = r.jobs-r.current.jobs, r.bytes-r.current.bytes
		r.current = nil
	}
}

// Close joins the background work. The leases live on, with the jobs on them;
// one that nothing hangs on is revoked.
func (r *retention) close(ctx context.Context) error {
	r.mu.Lock()
	r.cancel() // under mu, so that nothing starts behind the Wait
	r.mu.Unlock()
	r.wg.Wait()
	r.mu.Lock()
	next := r.next
	r.next = nil
	r.mu.Unlock()
	if next == nil {
		return nil
	}
	return r.store.Revoke(ctx, next.id)
}
