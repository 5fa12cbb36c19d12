package coord

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// claimable is what a lock, a leadership and a semaphore have in common: claims
// that sessions queue for. Acquire, release and transfer are written once, here.
type claimable struct {
	claimReader
	s    *Session
	txns claimTxns
}

func newClaimable(s *Session, keys claimKeys) *claimable {
	return &claimable{claimReader: claimReader{s.store, keys}, s: s, txns: claimTxns{space: s.store.keys, keys: keys}}
}

// claimReader reads claims without a session.
type claimReader struct {
	store *Store
	keys  claimKeys
}

// read looks at all keys of the name, and at which owners live.
func (c claimReader) read(ctx context.Context) (claimView, error) {
	slots := clientv3.OpGet(c.keys.only)
	if c.keys.only == "" {
		slots = clientv3.OpGet(c.keys.slots, clientv3.WithPrefix())
	}
	resp, err := c.store.Read(ctx, slots, clientv3.OpGet(c.keys.wait, clientv3.WithPrefix()))
	if err != nil {
		return claimView{}, err
	}
	v := c.keys.viewOf(resp.Responses[0].GetResponseRange().Kvs, resp.Responses[1].GetResponseRange().Kvs, resp.Header.Revision)
	return v, c.readOwners(ctx, &v)
}

// readOwners finds out which owners are gone. It is a hint, later than the view:
// the Txn that takes a dead owner's claim proves it.
func (c claimReader) readOwners(ctx context.Context, v *claimView) error {
	var gets []clientv3.Op
	for _, s := range v.slots {
		if s.Owner != "" {
			gets = append(gets, clientv3.OpGet(c.store.keys.Session(s.Owner)))
		}
	}
	if len(gets) == 0 {
		return nil
	}
	resp, err := c.store.Read(ctx, gets...)
	if err != nil {
		return err
	}
	i := 0
	for j := range v.slots {
		if s := &v.slots[j]; s.Owner != "" {
			kvs := resp.Responses[i].GetResponseRange().Kvs
			s.dead = len(kvs) != 1 || kvs[0].CreateRevision != s.OwnerRev
			i++
		}
	}
	return nil
}

// acquisition is one call of Acquire: one unique claim.
type acquisition struct {
	*claimable
	me       claimer
	entry    string // our waiting entry, "" without one
	entryRev int64
	unsure   bool // an answer was lost: a claim or an entry may still appear
}

// entries numbers the waiting entries of this process.
var entries atomic.Int64

// acquire claims a slot, waiting in line when wait is set. Whatever happens, no
// claim or entry is left behind that nobody knows.
func (c *claimable) acquire(ctx context.Context, wait bool) (*Hold, error) {
	a := &acquisition{claimable: c, me: claimer{sid: c.s.id, rev: c.s.createRev, nonce: NewNonce()}}
	if err := c.s.Adopt(a.me.nonce, nil); err != nil {
		return nil, fmt.Errorf("acquire %s: %w", c.keys.what, err)
	}
	ctx, cancel := c.s.Context(ctx)
	defer cancel()
	h, err := a.run(ctx, wait)
	if err != nil {
		if a.entry == "" && !a.unsure || !c.s.aside.start(a.abandon) {
			c.s.Forget(a.me.nonce)
		}
		return nil, fmt.Errorf("acquire %s: %w", c.keys.what, err)
	}
	return h, nil
}

// run takes one step after another until the claim is ours.
func (a *acquisition) run(ctx context.Context, wait bool) (*Hold, error) {
	// The uncontended case is one request.
	if h, err := a.take(ctx, slotView{key: a.keys.slot(rand.IntN(a.keys.n))}); h != nil || err != nil {
		return h, err
	}
	for try := 0; ; try++ {
		v, err := a.read(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil, causeOf(ctx)
			}
			if isAuthError(err) {
				return nil, err
			}
			if err := pause(ctx, try); err != nil {
				return nil, err
			}
			continue
		}
		step, slot, before := v.decide(a.entry, a.me.nonce)
		switch step {
		case stepGranted:
			return a.hold(slot.key, slot.rev)
		case stepGone:
			a.entry = "" // an operator took it away: queue up again
			continue
		case stepTake:
			h, err := a.take(ctx, slot)
			if h != nil || err != nil {
				return h, err
			}
			continue
		case stepEnqueue:
			if !wait {
				return nil, ErrHeld
			}
			err = a.enqueue(ctx, v)
		case stepFollow:
			err = a.await(ctx, v.rev+1, before.key)
		case stepHead:
			err = a.await(ctx, v.rev+1, a.watched(v)...)
		}
		if err != nil {
			return nil, err
		}
		try = 0
	}
}

// take tries to claim a slot; nil, nil means that somebody was faster.
func (a *acquisition) take(ctx context.Context, s slotView) (*Hold, error) {
	r, err := a.do(ctx, a.txns.take(s, a.me, a.entry, a.entryRev, a.s.clock().wall))
	switch {
	case err != nil:
		return nil, err
	case r.Succeeded:
		return a.hold(s.key, r.Revision)
	case a.s.Err() != nil:
		return nil, a.s.Err()
	}
	return nil, nil
}

// do commits one of our Txns and remembers when its outcome stays open.
func (a *acquisition) do(ctx context.Context, t Txn) (Result, error) {
	r, err := a.s.committer.Do(ctx, t)
	a.unsure = a.unsure || errors.Is(err, ErrUnknown)
	return r, err
}

// enqueue puts our waiting entry; without success we look again.
func (a *acquisition) enqueue(ctx context.Context, v claimView) error {
	entry := a.keys.entry(a.s.id, entries.Add(1))
	a.entry, a.entryRev = entry, 0
	r, err := a.do(ctx, a.txns.enqueue(v, a.me, entry, a.s.lease, a.s.clock().wall))
	switch {
	case err != nil:
		return err
	case r.Succeeded:
		a.entryRev = r.Revision
	default:
		a.entry = ""
	}
	return nil
}

// watched is what the first in line waits for: the slots, and their owners'
// sessions.
func (a *acquisition) watched(v claimView) []string {
	var keys []string
	for _, s := range v.slots {
		keys = append(keys, s.key)
		if s.Owner != "" {
			keys = append(keys, a.store.keys.Session(s.Owner))
		}
	}
	return keys
}

// lookAgain bounds how long a waiter relies on its watches alone.
const lookAgain = 10 * time.Second

// await returns when one of the keys changed at or behind rev, or it is time to
// look again. The error is ctx's cause.
func (a *acquisition) await(ctx context.Context, rev int64, keys ...string) error {
	watchCtx, cancel := context.WithTimeout(ctx, lookAgain/2+rand.N(lookAgain))
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	changed := make(chan struct{}, len(keys))
	for _, key := range keys {
		wg.Go(func() {
			for range a.store.Watch(watchCtx, key, rev) {
				break
			}
			changed <- struct{}{}
		})
	}
	select {
	case <-changed:
	case <-watchCtx.Done():
	}
	if ctx.Err() != nil {
		return causeOf(ctx)
	}
	return nil
}

// abandon cleans up behind an acquisition that failed: its entry is withdrawn, and
// a claim that was made, or is handed over in this moment, is given up. When an
// answer was lost it goes on looking until a late one can no longer arrive. What it
// has no time for, the end of the session's lease takes care of.
func (a *acquisition) abandon(ctx context.Context) {
	defer a.s.Forget(a.me.nonce)
	var sure time.Duration
	if a.unsure {
		sure = a.s.clock().mono + 2*requestTimeout
	}
	for try := 0; ; try++ {
		done, err := a.leave(ctx)
		switch {
		case err == nil && done && a.s.clock().mono >= sure:
			return
		case err == nil && done:
			if !sleep(ctx, requestTimeout/2) {
				return
			}
			continue
		case err != nil:
			a.s.log.Debug("withdraw", zap.String("from", a.keys.what), zap.Error(err))
		}
		if pause(ctx, try) != nil {
			return
		}
	}
}

// leave makes one attempt to be gone; done tells that nothing of ours was seen.
func (a *acquisition) leave(ctx context.Context) (done bool, err error) {
	v, err := a.read(ctx)
	if err != nil {
		return false, err
	}
	for _, s := range v.slots {
		if s.nonce == a.me.nonce {
			f := Fence{Key: s.key, Token: Token(s.rev), Nonce: s.nonce}
			_, err := a.s.committer.Do(ctx, a.txns.release(f, v, a.s.clock().wall))
			return false, err
		}
	}
	for _, e := range v.entries {
		if e.key == a.entry {
			_, err := a.s.committer.Do(ctx, a.txns.withdraw(e.key, e.rev))
			return false, err
		}
	}
	return true, nil
}
