package etcdkv

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/fault"
)

// lookAgain bounds, on average, how long anybody relies on watches alone.
const lookAgain = 10 * time.Second

// AwaitChange blocks until one of the keys is written or deleted at revision rev
// or later, or until it is time to look again although no watch has said so: a
// watch is a hint, and its stream can die silently. So it does when the connection is
// lost, since etcd may come back with an older history. Then the caller reads. The error
// is ctx's cause, or [fault.ErrClosed] when the client was closed, and nothing else.
func (s *Store) AwaitChange(ctx context.Context, rev int64, keys ...string) error {
	ctx, stop := s.WhileOpen(ctx)
	defer stop()
	watchCtx, cancel := context.WithTimeout(ctx, lookAgain/2+rand.N(lookAgain))
	defer cancel()
	stream := s.streams.Load()
	changed := make(chan struct{}, len(keys))
	var wg sync.WaitGroup
	for _, key := range keys {
		wg.Go(func() {
			if s.watchFor(watchCtx, key, rev) {
				changed <- struct{}{}
			}
		})
	}
	told := true
	select {
	case <-changed:
	case <-watchCtx.Done():
		told = false
	}
	cancel()
	wg.Wait()
	if ctx.Err() != nil {
		return fault.CauseOf(ctx)
	}
	if !told && s.missed(ctx, rev, keys) {
		s.leave(stream)
	}
	return nil
}

// watchFor watches one key until it changes or ctx ends; true means that it did,
// or that only reading can tell.
func (s *Store) watchFor(ctx context.Context, key string, rev int64) bool {
	for try := 0; ctx.Err() == nil; try++ {
		stream := s.streams.Load()
		if s.watchOnce(ctx, key, rev) {
			return true
		}
		if ctx.Err() == nil {
			// A stream can refuse watches that another would take: its token has
			// expired, or its member is cut off.
			s.leave(stream)
		}
		_ = Pause(ctx, try) // the loop's head tells when ctx ended
	}
	return false
}

func (s *Store) watchOnce(ctx context.Context, key string, rev int64) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The client waits for the server to confirm the watch, for ever if need be.
	unconfirmed := time.AfterFunc(RequestTimeout, cancel)
	defer unconfirmed.Stop()
	watch := s.Watch(ctx, key, rev)
	unconfirmed.Stop()
	for resp := range watch {
		if len(resp.Events) > 0 || resp.CompactRevision != 0 {
			return true
		}
		if resp.Err() != nil {
			return false
		}
	}
	return ctx.Err() == nil // the connection was lost
}

// leave moves the watches to come from stream n to the next; whoever comes second
// finds it done.
func (s *Store) leave(n int64) { s.streams.CompareAndSwap(n, n+1) }

// maxMissed is how many keys are looked at in one request.
const maxMissed = 100

// missed tells that one of the keys has changed, or is gone, while their watches
// said nothing.
func (s *Store) missed(ctx context.Context, rev int64, keys []string) bool {
	for len(keys) > 0 {
		n := min(len(keys), maxMissed)
		gets := make([]clientv3.Op, 0, n)
		for _, key := range keys[:n] {
			gets = append(gets, clientv3.OpGet(key, clientv3.WithKeysOnly()))
		}
		keys = keys[n:]
		resp, err := s.Read(ctx, gets...)
		if err != nil {
			return false // the caller's own read will tell
		}
		for _, r := range resp.Responses {
			if kvs := r.GetResponseRange().Kvs; len(kvs) == 0 || kvs[0].ModRevision >= rev {
				return true
			}
		}
	}
	return false
}
