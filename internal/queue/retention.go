package queue

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
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
	keeps func() kept // what may be kept now
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
	age     time.Duration // that its keys are kept for at least
	jobs    int
	bytes   int
}

// grant is the getting of one lease.
type grant struct {
	done chan struct{}
	err  error // valid once done is closed
}

func newRetention(store *etcdkv.Store, keeps func() kept, log *zap.Logger) *retention {
	r := &retention{store: store, keeps: keeps, log: log}
	r.life, r.cancel = context.WithCancel(context.Background())
	return r
}

// rotateAfter is the age at which a lease takes no more keys: one of these lives
// between what is asked for and a quarter more.
func (k kept) rotateAfter() time.Duration { return k.age / 4 }

// fits tells whether a lease may take one more key of n bytes. Leases are small
// parts of what may be kept, since they are what trim can give up. One that was
// granted under other settings takes none.
func (k kept) fits(c *retainer, n int) bool {
	return c != nil && /*mutant:retention-follows*/ c.age == k.age && time.Since(c.granted) <= k.rotateAfter() && /*mutant:retention-rotates*/ c.jobs < k.perLease() &&
		(c.jobs == 0 || c.bytes+n <= k.bytes/4)
}

func (k kept) exceeded(jobs, bytes int) bool {
	return /*mutant:retention-jobs*/ jobs > k.jobs || /*mutant:retention-bytes*/ bytes > k.bytes
}

func (k kept) perLease() int { return min(keysPerLease, max(k.jobs/4, 1)) }

// Lease returns a lease for one more key of n bytes. It waits only when no lease
// could be granted ahead.
func (r *retention) Lease(ctx context.Context, n int) (clientv3.LeaseID, error) {
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
	k, c := r.keeps(), r.current
	if !k.fits(c, n) {
		if r.next != nil && !k.fits(r.next, n) {
			r.revoke(r.next.id) // unused, and too old by now
			r.next = nil
		}
		if r.next == nil {
			return clientv3.NoLease, r.grant(k)
		}
		if c != nil {
			r.full = append(r.full, c)
		}
		r.current, r.next = r.next, nil
		c = r.current
	}
	c.jobs, c.bytes = c.jobs+1, c.bytes+n
	r.jobs, r.bytes = r.jobs+1, r.bytes+n
	if r.next == nil && (2*c.jobs >= k.perLease() || !k.fits(c, c.bytes)) {
		r.grant(k)
	}
	r.trim(k)
	return c.id, nil
}

// grant gets the next lease in the background. Called with mu held.
func (r *retention) grant(k kept) *grant {
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
		g.err = fault.ErrClosed
		close(g.done)
		return g
	}
	r.wg.Go(func() {
		id, _, err := r.store.Grant(r.life, k.age+k.rotateAfter())
		r.mu.Lock()
		defer r.mu.Unlock()
		defer close(g.done)
		if g.err = err; err == nil {
			r.next = &retainer{id: id, granted: time.Now(), age: k.age}
		}
	})
	return g
}

// trim revokes the oldest leases while too much is kept. Called with mu held.
func (r *retention) trim(k kept) {
	r.full = slices.DeleteFunc(r.full, func(c *retainer) bool {
		aged := time.Since(c.granted) > c.age+c.age/4
		if aged {
			r.jobs, r.bytes = r.jobs-c.jobs, r.bytes-c.bytes
		}
		return aged
	})
	for len(r.full) > 0 && k.exceeded(r.jobs, r.bytes) {
		oldest := r.full[0]
		r.full = r.full[1:]
		r.jobs, r.bytes = r.jobs-oldest.jobs, r.bytes-oldest.bytes
		r.revoke(oldest.id)
	}
}

// revoke ends a lease in the background. Called with mu held.
func (r *retention) revoke(id clientv3.LeaseID) {
	if r.life.Err() != nil {
		return
	}
	r.wg.Go(func() {
		if err := r.store.Revoke(r.life, id); err != nil {
			// It ends by itself, only later.
			r.log.Debug("revoke retention lease", zap.Error(err))
		}
	})
}

// Lost takes a lease out of use that etcd does not know any more.
func (r *retention) Lost(id clientv3.LeaseID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current != nil && r.current.id == id {
		r.jobs, r.bytes = r.jobs-r.current.jobs, r.bytes-r.current.bytes
		r.current = nil
	}
}

// close joins the background work. The leases live on, with the jobs on them;
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
