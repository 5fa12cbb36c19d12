package coord

import (
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// watch ends the hold with its session, or when its key changes: somebody took the
// claim away.
func (h *Hold) watch(ctx context.Context) {
	s := h.c.s
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.life, cancel)()
	defer context.AfterFunc(s.life, func() { h.end(context.Cause(s.life)) })()
	from := int64(h.fence.Token) + 1
	for s.store.AwaitChange(ctx, from, h.fence.Key) == nil {
		for try := 0; ; try++ {
			resp, err := s.store.Get(ctx, h.fence.Key)
			if err == nil {
				if err := h.judge(resp.Kvs); err != nil {
					h.taken(ctx, err) //mutant:hold-taken
					return
				}
				from = resp.Header.Revision + 1
				break
			}
			if etcdkv.Pause(ctx, try) != nil {
				return
			}
		}
	}
}

// taken ends the hold for a change by somebody else; our own release says so
// itself, unless it does not know what it did.
func (h *Hold) taken(ctx context.Context, cause error) {
	for h.life.Err() == nil && ctx.Err() == nil {
		if !h.closer.Busy() {
			h.end(cause)
			return
		}
		_ = h.closer.Wait(ctx) // it says itself what it did
	}
}

// judge tells whether the key, as it was read, still holds our claim.
func (h *Hold) judge(kvs []*mvccpb.KeyValue) error {
	switch {
	case len(kvs) == 0:
		return &FencedError{Key: h.fence.Key, Wanted: h.fence.Token}
	case Token(kvs[0].ModRevision) != h.fence.Token, keyspace.NonceOf(kvs[0].Value) != h.fence.Nonce:
		return &FencedError{Key: h.fence.Key, Wanted: h.fence.Token, Current: Token(kvs[0].ModRevision)}
	}
	return nil
}
