package coord

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/lane"
)

// claimable is what a lock, a leadership and a semaphore have in common: claims
// that sessions queue for. Acquire, release and transfer are written once, here.
type claimable struct {
	claimReader
	s    *Session
	txns claimTxns
}

func newClaimable(s *Session, keys keyspace.ClaimKeys) *claimable {
	return &claimable{claimReader: claimReader{s.store, keys}, s: s, txns: claimTxns{space: s.store.Keys(), keys: keys}}
}

// acquisition is one call of Acquire: one unique claim.
type acquisition struct {
	*claimable
	me       claimer
	entry    string // our waiting entry, "" without one
	entryRev int64
	last     *lane.Pending // the last Txn that was handed over
	left     bool          // something of ours is in etcd, or may be
}

// entries numbers the waiting entries of this process.
var entries atomic.Int64

// acquire claims a slot, waiting in line when wait is set. Whatever happens, no
// claim or entry is left behind that nobody knows.
func (c *claimable) acquire(ctx context.Context, wait bool) (*Hold, error) {
	a := &acquisition{claimable: c, me: claimer{sid: c.s.id, rev: c.s.createRev, nonce: keyspace.NewNonce()}}
	if err := c.s.Track(a.me.nonce, a.leave); err != nil {
		return nil, fmt.Errorf("acquire %s: %w", c.keys.What, err)
	}
	ctx, cancel := c.s.Context(ctx)
	defer cancel()
	h, err := a.run(ctx, wait)
	if err != nil {
		if a.left {
			c.s.book.Settle(a.me.nonce)
		} else {
			c.s.book.Untrack(a.me.nonce)
		}
		return nil, fmt.Errorf("acquire %s: %w", c.keys.What, err)
	}
	return h, nil
}

// atOnce is how many races in a row are lost before looking again takes a pause:
// a lost race means that somebody went on, but not for ever.
const atOnce = 5

// run takes one step after another until the claim is ours.
func (a *acquisition) run(ctx context.Context, wait bool) (*Hold, error) {
	// The uncontended case is one request.
	h, err := a.take(ctx, slotView{key: a.keys.Slot(rand.IntN(a.keys.N))})
	for lost := 0; h == nil && err == nil; lost++ {
		if lost >= atOnce {
			if err := etcdkv.Pause(ctx, lost-atOnce); err != nil {
				return nil, err
			}
		}
		v, lookErr := a.look(ctx)
		if lookErr != nil {
			return nil, lookErr
		}
		var on bool
		if h, on, err = a.step(ctx, v, wait); on {
			lost = -1
		}
	}
	return h, err
}

// look reads until etcd answers.
func (a *acquisition) look(ctx context.Context) (claimView, error) {
	for try := 0; ; try++ {
		v, err := a.read(ctx)
		switch {
		case err == nil:
			return v, nil
		case ctx.Err() != nil:
			return claimView{}, fault.CauseOf(ctx)
		case etcdkv.IsAuthError(err):
			return claimView{}, err
		}
		if err := etcdkv.Pause(ctx, try); err != nil {
			return claimView{}, err
		}
	}
}

// step does what is next; on tells that it got us further.
func (a *acquisition) step(ctx context.Context, v claimView, wait bool) (h *Hold, on bool, err error) {
	step, slot, before := v.decide(a.entry, a.me.nonce)
	switch step {
	case stepGranted:
		h, err = a.hold(slot.key, slot.rev)
	case stepGone:
		a.entry = "" // an operator took it away: queue up again
	case stepTake:
		h, err = a.take(ctx, slot)
	case stepEnqueue:
		if !wait {
			return nil, false, ErrHeld
		}
		on, err = a.enqueue(ctx, v)
	case stepFollow:
		// Our own entry tells of a transfer to us, past those before us.
		on, err = true, a.store.AwaitChange(ctx, v.rev+1, a.entry, before.key)
	case stepHead:
		on, err = true, a.store.AwaitChange(ctx, v.rev+1, a.watched(v)...)
	}
	return h, on, err
}

// take tries to claim a slot; nil, nil means that somebody was faster.
func (a *acquisition) take(ctx context.Context, s slotView) (*Hold, error) {
	r, err := a.do(ctx, a.txns.take(s, a.me, a.entry, a.entryRev, a.s.clock().wall))
	if err != nil || !r.Succeeded {
		return nil, err
	}
	return a.hold(s.key, r.Revision)
}

// enqueue puts our waiting entry; without success we look again.
func (a *acquisition) enqueue(ctx context.Context, v claimView) (ok bool, err error) {
	a.entry, a.entryRev = a.keys.Entry(a.s.id, entries.Add(1)), 0
	r, err := a.do(ctx, a.txns.enqueue(v, a.me, a.entry, a.s.lease, a.s.clock().wall))
	switch {
	case err != nil:
		return false, err
	case r.Succeeded:
		a.entryRev = r.Revision
	default:
		a.entry = ""
	}
	return r.Succeeded, nil
}

// do commits one of our Txns and remembers what may be left of it. The second get
// of its Else is our session's key: without it nothing will ever succeed.
func (a *acquisition) do(ctx context.Context, t etcdkv.Txn) (lane.Result, error) {
	if ctx.Err() != nil {
		return lane.Result{}, fault.CauseOf(ctx)
	}
	a.last = a.s.committer.Go(t)
	r, err := a.last.Wait(ctx)
	a.left = a.left || r.Succeeded || errors.Is(err, fault.ErrUnknown)
	gone := etcdkv.IsLeaseNotFound(err)
	if err == nil && !r.Succeeded {
		kv := r.Get(1)
		gone = kv == nil || kv.CreateRevision != a.me.rev
	}
	if gone {
		a.s.end(sessionGone())
		return lane.Result{}, a.s.Err()
	}
	return r, err
}

// watched is what the first in line waits for: its entry, the slots, and their
// owners' sessions.
func (a *acquisition) watched(v claimView) []string {
	keys := []string{a.entry}
	for _, s := range v.slots {
		keys = append(keys, s.key)
		if s.Owner != "" {
			keys = append(keys, a.store.Keys().Session(s.Owner))
		}
	}
	return keys
}

// leave ends an acquisition that failed: its entry is withdrawn, and a claim that was
// made, or is handed over in this moment, is given up. It first waits until the last Txn
// can change nothing any more: after that none of ours can arrive late.
func (a *acquisition) leave(ctx context.Context) error {
	for _, sent := range []func() <-chan struct{}{a.last.Done, a.last.Fixed} {
		select {
		case <-sent():
		case <-ctx.Done():
			return fault.CauseOf(ctx)
		}
	}
	for lost := 0; ; lost++ {
		done, err := a.leaveOnce(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("withdraw from %s: %w", a.keys.What, err)
		case done:
			return nil
		case lost >= atOnce:
			return fmt.Errorf("withdraw from %s: %w", a.keys.What, fault.ErrRefused) // it is tried again
		}
	}
}

// leaveOnce makes one attempt to be gone.
func (a *acquisition) leaveOnce(ctx context.Context) (done bool, err error) {
	v, err := a.read(ctx)
	if err != nil {
		return false, err
	}
	for _, s := range v.slots {
		if s.nonce == a.me.nonce {
			f := etcdkv.Fence{Key: s.key, Token: s.rev, Nonce: s.nonce}
			txn, _ := a.txns.release(f, v, a.s.clock().wall)
			r, err := a.s.committer.Do(ctx, txn)
			return r.Succeeded, err
		}
	}
	for _, e := range v.entries {
		if e.Claim == a.me.nonce {
			r, err := a.s.committer.Do(ctx, a.txns.withdraw(e.key, e.rev))
			return r.Succeeded, err
		}
	}
	return true, nil
}
