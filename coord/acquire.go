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
	"github.com/leasekit/leasekit/internal/line"
)

// claimable is what a lock, a leadership and a semaphore have in common: claims
// that sessions queue for. Acquire is written once, here; the Txns are those of package
// line.
type claimable struct {
	line.Reader
	s    *Session
	txns line.Txns
}

func newClaimable(s *Session, keys keyspace.ClaimKeys) *claimable {
	return &claimable{Reader: line.Reader{Store: s.store, Keys: keys}, s: s, txns: line.Txns{Space: s.store.Keys(), Keys: keys}}
}

// acquisition is one call of Acquire: one unique claim.
type acquisition struct {
	*claimable
	me       line.Claimant
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
	a := &acquisition{claimable: c, me: line.Claimant{Session: c.s.id, Rev: c.s.createRev, Nonce: keyspace.NewNonce()}}
	if err := c.s.track(a.me.Nonce, a.leave); err != nil {
		return nil, fmt.Errorf("acquire %s: %w", c.Keys.What, err)
	}
	ctx, cancel := c.s.Context(ctx)
	defer cancel()
	h, err := a.run(ctx, wait)
	if err != nil {
		if a.left {
			c.s.book.Settle(a.me.Nonce)
		} else {
			c.s.book.Untrack(a.me.Nonce)
		}
		return nil, fmt.Errorf("acquire %s: %w", c.Keys.What, err)
	}
	return h, nil
}

// atOnce is how many races in a row are lost before looking again takes a pause:
// a lost race means that somebody went on, but not for ever.
const atOnce = 5

// run takes one step after another until the claim is ours.
func (a *acquisition) run(ctx context.Context, wait bool) (*Hold, error) {
	// The uncontended case is one request.
	h, err := a.take(ctx, line.Slot{Key: a.Keys.Slot(rand.IntN(a.Keys.N))})
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
func (a *acquisition) look(ctx context.Context) (line.View, error) {
	for try := 0; ; try++ {
		v, err := a.Read(ctx)
		switch {
		case err == nil:
			return v, nil
		case ctx.Err() != nil:
			return line.View{}, fault.CauseOf(ctx)
		case etcdkv.IsAuthError(err):
			return line.View{}, err
		}
		if err := etcdkv.Pause(ctx, try); err != nil {
			return line.View{}, err
		}
	}
}

// step does what is next; on tells that it got us further.
func (a *acquisition) step(ctx context.Context, v line.View, wait bool) (h *Hold, on bool, err error) {
	step, slot, before := v.Decide(a.entry, a.me.Nonce)
	switch step {
	case line.StepGranted:
		h, err = a.hold(slot.Key, slot.Rev)
	case line.StepGone:
		a.entry = "" // an operator took it away: queue up again
	case line.StepTake:
		h, err = a.take(ctx, slot)
	case line.StepEnqueue:
		if !wait {
			return nil, false, ErrHeld
		}
		on, err = a.enqueue(ctx, v)
	case line.StepFollow:
		// Our own entry tells of a transfer to us, past those before us.
		on, err = true, a.Store.AwaitChange(ctx, v.Rev+1, a.entry, before.Key)
	case line.StepHead:
		on, err = true, a.Store.AwaitChange(ctx, v.Rev+1, a.watched(v)...)
	}
	return h, on, err
}

// take tries to claim a slot; nil, nil means that somebody was faster.
func (a *acquisition) take(ctx context.Context, s line.Slot) (*Hold, error) {
	r, err := a.do(ctx, a.txns.Take(s, a.me, a.entry, a.entryRev, a.s.clock().wall))
	if err != nil || !r.Succeeded {
		return nil, err
	}
	return a.hold(s.Key, r.Revision)
}

// enqueue puts our waiting entry; without success we look again.
func (a *acquisition) enqueue(ctx context.Context, v line.View) (ok bool, err error) {
	a.entry, a.entryRev = a.Keys.Entry(a.s.id, entries.Add(1)), 0
	r, err := a.do(ctx, a.txns.Enqueue(v, a.me, a.entry, a.s.lease, a.s.clock().wall))
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
		gone = kv == nil || kv.CreateRevision != a.me.Rev
	}
	if gone {
		a.s.end(sessionGone())
		return lane.Result{}, a.s.Err()
	}
	return r, err
}

// watched is what the first in line waits for: its entry, the slots, and their
// owners' sessions.
func (a *acquisition) watched(v line.View) []string {
	keys := []string{a.entry}
	for _, s := range v.Slots {
		keys = append(keys, s.Key)
		if s.Owner != "" {
			keys = append(keys, a.Store.Keys().Session(s.Owner))
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
			return fmt.Errorf("withdraw from %s: %w", a.Keys.What, err)
		case done:
			return nil
		case lost >= atOnce:
			return fmt.Errorf("withdraw from %s: %w", a.Keys.What, fault.ErrRefused) // it is tried again
		}
	}
}

// leaveOnce makes one attempt to be gone.
func (a *acquisition) leaveOnce(ctx context.Context) (done bool, err error) {
	v, err := a.Read(ctx)
	if err != nil {
		return false, err
	}
	for _, s := range v.Slots {
		if s.Nonce == a.me.Nonce {
			f := etcdkv.Fence{Key: s.Key, Token: s.Rev, Nonce: s.Nonce}
			txn, _ := a.txns.Release(f, v, a.s.clock().wall)
			r, err := a.s.committer.Do(ctx, txn)
			return r.Succeeded, err
		}
	}
	for _, e := range v.Entries {
		if e.Claim == a.me.Nonce {
			r, err := a.s.committer.Do(ctx, a.txns.Withdraw(e.Key, e.Rev))
			return r.Succeeded, err
		}
	}
	return true, nil
}
