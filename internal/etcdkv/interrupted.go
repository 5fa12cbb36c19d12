package etcdkv

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// A restore takes etcd away from its clients, which then watch on from where they were.
// What they watch on may be another history: one below that revision, of which they hear
// nothing, or one that has passed it by then, of which they hear all but what came before.
// The first shows in the header of any answer, the second in nothing that etcd says. So
// whoever watches looks again behind every connection that was lost.

// untilInterrupted hands on what a watch says until the connection is lost. What it has
// said has happened, so no linearizable answer may be below it.
func (s *Store) untilInterrupted(ctx context.Context, watch func(context.Context) clientv3.WatchChan) clientv3.WatchChan {
	ctx, cancel := context.WithCancel(ctx)
	out, before := make(chan clientv3.WatchResponse), s.high.read()
	go func() {
		s.backend.Connection(ctx, false)
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
