package coord

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	// laneTTL is how long a lane outlives its process.
	laneTTL = 10 * time.Minute
	// maxLanes bounds the lanes of a committer.
	maxLanes = 4
	// slowFlight is when a flight no longer holds up the others: its answer may
	// be lost, so another lane takes what waits.
	slowFlight = 500 * time.Millisecond
	// soloFor is how long an origin travels alone after etcd refused one of its
	// units outright.
	soloFor = 5 * time.Second
)

// Committer sends Txns in lanes, many in one request: what waits while a batch
// is in flight travels as the next one. It adds no delay of its own. Each Txn
// succeeds or loses alone, and its outcome is applied, not applied, or, rarely,
// [ErrUnknown]. One healthy flight is under way at a time, since etcd gains
// nothing from a second; a slow one does not hold up the rest.
//
// Whoever creates it must Close it. Safe for concurrent use.
type Committer struct {
	store    *Store
	identity string

	ctx    context.Context // the committer's life, never a caller's
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	queue  []*unit
	lanes  []*laneSlot
	owner  string // lanes/<owner>/, new with each lane lease
	lease  clientv3.LeaseID
	opened int // numbers the lanes, so that a name is never used twice
	closed bool
	idle   chan struct{} // closed when closed and nothing is queued or in flight
	solo   map[string]time.Time

	flights atomic.Int64
}

type laneSlot struct {
	lane       *lane
	busy, slow bool
}

// NewCommitter returns a committer whose lanes are named after identity, which
// is escaped. It talks to etcd only when something is committed.
func (s *Store) NewCommitter(identity string) *Committer {
	ctx, cancel := context.WithCancel(context.Background())
	return &Committer{
		store: s, identity: escapeIdentity(identity), ctx: ctx, cancel: cancel,
		idle: make(chan struct{}), solo: map[string]time.Time{},
	}
}

// Flights returns how many requests have been sent, for measurements.
func (c *Committer) Flights() int64 { return c.flights.Load() }

// Pending is a Txn on its way. Safe for concurrent use.
type Pending struct{ u *unit }

// Done is closed when the outcome is known.
func (p *Pending) Done() <-chan struct{} { return p.u.settled }

// Result returns the outcome; valid once Done is closed. The error is nil when
// the Txn was answered, whether If held or not; it wraps [ErrUnknown] when it may
// or may not have been applied; any other error means that nothing was applied.
func (p *Pending) Result() (Result, error) { return p.u.result, p.u.err }

// Wait blocks until the outcome is known or ctx ends. When ctx ends first, a
// Txn that was not sent yet is withdrawn and the error is ctx's cause; of one
// that was sent the outcome is [ErrUnknown] for now, and the committer goes on
// finding it out: see Done.
func (p *Pending) Wait(ctx context.Context) (Result, error) {
	select {
	case <-p.u.settled:
		return p.Result()
	default:
	}
	select {
	case <-p.u.settled:
		return p.Result()
	case <-ctx.Done():
	}
	cause := causeOf(ctx)
	if trouble := p.u.trouble.Load(); trouble != nil {
		cause = fmt.Errorf("%w (last answer: %w)", cause, *trouble)
	}
	if p.u.withdraw() {
		p.u.settle(Result{}, fmt.Errorf("%w: %w", errNotSent, cause))
		return p.Result()
	}
	return Result{}, unknown(cause)
}

// Do commits one Txn and waits for its outcome: Go and [Pending.Wait].
func (c *Committer) Do(ctx context.Context, t Txn) (Result, error) {
	return c.Go(t).Wait(ctx)
}

// Go hands over one Txn and does not block. Then must not put the same key
// twice, and Else may only get.
func (c *Committer) Go(t Txn) *Pending {
	u := newUnit(t)
	p := &Pending{u: u}
	if err := u.validate(); err != nil {
		u.settle(Result{}, err)
		return p
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		u.settle(Result{}, fmt.Errorf("commit: %w", ErrClosed))
		return p
	}
	c.queue = append(c.queue, u)
	c.kick()
	return p
}

func (u *unit) validate() error {
	if u.size > maxBatchBytes {
		return &InputError{Field: "transaction", Value: fmt.Sprint(u.size), Reason: fmt.Sprintf("it has more than %d bytes, which etcd may refuse; keep large data outside etcd", maxBatchBytes)}
	}
	if 2+u.depth > maxTxnOps {
		return &InputError{Field: "transaction", Value: fmt.Sprint(u.depth), Reason: fmt.Sprintf("it has too many operations for one etcd Txn (%d)", maxTxnOps)}
	}
	for _, op := range u.txn.Else {
		if !op.IsGet() {
			return &InputError{Field: "transaction", Value: string(op.KeyBytes()), Reason: "Else may only get"}
		}
	}
	return nil
}

// kick starts a flight where a lane is free. Called with mu held.
func (c *Committer) kick() {
	for len(c.queue) > 0 && c.ctx.Err() == nil {
		slot := c.free()
		if slot == nil {
			return
		}
		now := time.Now()
		units, left := compose(c.queue, func(origin string) bool { return now.Before(c.solo[origin]) })
		c.queue = left
		slot.busy, slot.slow = true, false
		c.wg.Go(func() { c.fly(slot, units) })
	}
	if c.closed && len(c.queue) == 0 && !c.flying() {
		select {
		case <-c.idle:
		default:
			close(c.idle)
		}
	}
}

func (c *Committer) flying() bool {
	for _, s := range c.lanes {
		if s.busy {
			return true
		}
	}
	return false
}

// free returns an idle lane, unless a healthy flight is under way.
func (c *Committer) free() *laneSlot {
	var idle *laneSlot
	for _, s := range c.lanes {
		if s.busy && !s.slow {
			return nil
		}
		if !s.busy {
			idle = s
		}
	}
	if idle == nil && len(c.lanes) < maxLanes {
		idle = &laneSlot{}
		c.lanes = append(c.lanes, idle)
	}
	return idle
}

// fly carries one batch and starts the next.
func (c *Committer) fly(slot *laneSlot, units []*unit) {
	slow := time.AfterFunc(slowFlight, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		slot.slow = true
		c.kick()
	})
	defer slow.Stop()
	left := c.carry(slot, units)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range units {
		if len(left) == 0 && u.err != nil && !errors.Is(u.err, ErrUnknown) {
			c.solo[u.txn.Origin] = time.Now().Add(soloFor)
		}
	}
	if slot.lane != nil && slot.lane.gone {
		slot.lane = nil
	}
	slot.busy = false
	c.queue = append(left, c.queue...)
	c.kick()
}

// carry sends units in the slot's lane and returns those that were not applied
// because the lane was gone.
func (c *Committer) carry(slot *laneSlot, units []*unit) (left []*unit) {
	if slot.lane == nil {
		if err := c.openLane(slot); err != nil {
			failAll(sendable(units), err)
			return nil
		}
	}
	c.flights.Add(1)
	if err := slot.lane.fly(c.ctx, c.store, units); err == nil {
		return nil
	}
	c.dropLease(slot.lane.lease)
	for _, u := range units {
		select {
		case <-u.settled:
		default:
			u.phase.CompareAndSwap(phaseSent, phaseWaiting)
			left = append(left, u)
		}
	}
	return left
}

// openLane gives the slot a lane that was never used before.
func (c *Committer) openLane(slot *laneSlot) error {
	c.mu.Lock()
	lease, owner, n := c.lease, c.owner, c.opened
	c.opened++
	c.mu.Unlock()
	if lease == 0 {
		id, _, err := c.store.Grant(c.ctx, laneTTL)
		if err != nil {
			return fmt.Errorf("open lane: %w: %w", errNotSent, err)
		}
		lease, owner = id, c.identity+"."+hex16(uint64(id))
		c.mu.Lock()
		if c.lease == 0 {
			c.lease, c.owner = lease, owner
			c.wg.Go(func() { c.renewLanes(lease) })
		}
		c.mu.Unlock()
	}
	slot.lane = &lane{key: c.store.keys.Lane(owner, n), lease: lease}
	return nil
}

func (c *Committer) dropLease(lease clientv3.LeaseID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lease == lease {
		c.lease, c.owner = 0, ""
	}
}

// renewLanes keeps the lanes' lease until it is gone or the committer closed.
func (c *Committer) renewLanes(lease clientv3.LeaseID) {
	tick := time.NewTicker(laneTTL / 3)
	defer tick.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-tick.C:
		}
		if !c.renewLanesOnce(lease) {
			c.dropLease(lease)
			return
		}
	}
}

// renewLanesOnce tries until an answer came; false means that the lease is gone.
func (c *Committer) renewLanesOnce(lease clientv3.LeaseID) bool {
	r := c.store.backend.renewer(lease)
	defer r.close()
	for try := 0; ; try++ {
		ctx, cancel := context.WithTimeout(c.ctx, requestTimeout)
		ttl, err := r.renew(ctx)
		cancel()
		if err == nil {
			return ttl > 0
		}
		if pause(c.ctx, try) != nil {
			return true
		}
		c.store.log.Debug("renew lanes", zap.Error(err))
	}
}

// Close refuses new Txns, waits until what was handed over is settled or ctx
// ends, and revokes the lanes' lease. What is still open when ctx ends becomes
// [ErrUnknown]. When it returns, no goroutine is left. Closing twice is fine.
func (c *Committer) Close(ctx context.Context) error {
	err := c.drain(ctx)
	c.mu.Lock()
	c.cancel() // under mu, so that no flight starts behind the Wait
	c.mu.Unlock()
	c.wg.Wait()
	c.mu.Lock()
	left, lease := c.queue, c.lease
	c.queue, c.lease = nil, 0
	c.mu.Unlock()
	for _, u := range left {
		if u.withdraw() {
			u.settle(Result{}, fmt.Errorf("commit: %w", ErrClosed))
		}
	}
	if lease == 0 {
		return err
	}
	// A revoked lane refuses a late original for ever, as a moved one does.
	ctx, cancel := boundedCleanup(ctx)
	defer cancel()
	return errors.Join(err, c.store.Revoke(ctx, lease))
}

// drain refuses new Txns and waits for those under way.
func (c *Committer) drain(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	c.kick()
	c.mu.Unlock()
	select {
	case <-c.idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("drain lanes: %w", causeOf(ctx))
	}
}
