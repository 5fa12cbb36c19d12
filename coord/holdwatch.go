package coord

import (
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// watch ends the hold when its key is seen to change: somebody took the claim
// away. It ends with the hold, or with the session.
func (h *Hold) watch(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.life, cancel)()
	defer context.AfterFunc(h.c.s.life, cancel)()
	from := int64(h.fence.Token) + 1
	for try := 0; ctx.Err() == nil; try++ {
		for resp := range h.c.s.store.Watch(ctx, h.fence.Key, from) {
			if len(resp.Events) > 0 {
				ev := resp.Events[0].Kv
				h.taken(Token(ev.ModRevision))
				return
			}
		}
		if pause(ctx, try) != nil {
			return
		}
		resp, err := h.c.s.store.Get(ctx, h.fence.Key)
		if err != nil {
			continue
		}
		if err := h.judge(resp.Kvs); err != nil {
			h.end(err)
			return
		}
		from = resp.Header.Revision + 1
	}
}

// taken ends the hold for a change by somebody else; our own release says so
// itself.
func (h *Hold) taken(current Token) {
	h.mu.Lock()
	releasing := h.released != nil
	h.mu.Unlock()
	if !releasing {
		h.end(&FencedError{Key: h.fence.Key, Wanted: h.fence.Token, Current: current})
	}
}

// judge tells whether the key, as it was read, still holds our claim.
func (h *Hold) judge(kvs []*mvccpb.KeyValue) error {
	switch {
	case len(kvs) == 0:
		return &FencedError{Key: h.fence.Key, Wanted: h.fence.Token}
	case Token(kvs[0].ModRevision) != h.fence.Token, NonceOf(kvs[0].Value) != h.fence.Nonce:
		return &FencedError{Key: h.fence.Key, Wanted: h.fence.Token, Current: Token(kvs[0].ModRevision)}
	}
	return nil
}
