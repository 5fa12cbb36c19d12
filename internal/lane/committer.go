package lane

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
	"github.com/leasekit/leasekit/internal/keyspace"
)

const (
	// maxLanes bounds the lanes of a committer.
	maxLanes = 4
	// slowFlight is when a flight no longer holds up the others: its answer may
	// be lost, so another lane takes what waits.
	slowFlight = 500 * time.Millisecond
	// secondFlight is how many units make a flight of their own beside another that
	// is under way: so many that a batch is nearly as cheap as it gets. Etcd then works
	// on one while the other is on its way.
	secondFlight = 64
	// plainUnits is how many units may travel as a batch that is not lean: so few cost
	// little, and each has its whole answer in one round trip.
	plainUnits = 8
	// soloFor is how long an origin travels alone after etcd refused one of its
	// units outright.
	soloFor = 5 * time.Second
	// yields is how often a flight lets others run before the next one starts.
	yields = 3
	// maxWithdrawn is how many withdrawn units may stay in the queue at least:
	// while nothing flies, nobody else takes them out.
	maxWithdrawn = 64
)

// Committer sends Txns in lanes, many in one request: what waits while a batch
// is in flight travels as the next one. It adds no delay of its own. Each Txn
// succeeds or loses alone, and its outcome is applied, not applied, or, rarely,
// [fault.ErrUnknown]. Small flights are under way one at a time, since etcd gains nothing
// from a second; a large one does not wait for another, and a slow one holds up
// nobody.
//
// Whoever creates it must Close it. Safe for concurrent use.
type Committer struct {
	store    *etcdkv.Store
	identity string
	plain    int // of each lane

	ctx    context.Context // the committer's life, never a caller's
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu        sync.Mutex
	queue     []*unit
	withdrawn int // at most so many of the queue
	batch     batch
	lanes     []*laneSlot
	// ending are the lanes that are lost and may still take a late original.
	ending []*lostLane
	opened int // numbers the lanes
	closed bool
	idle   chan struct{} // closed when closed and nothing is queued or in flight
	solo   map[string]time.Time

	requests atomic.Int64
}

// laneSlot is the place of one lane at a time.
type laneSlot struct {
	lane       *lane
	busy, slow bool
	flight     int64 // counts the flights, so that a timer knows its own
	lost       int   // lanes lost in a row
	open       openKeys
	// contest ends the wait for the flight's answer: see [Committer.contest].
	contest context.CancelFunc
}

// NewCommitter returns a committer whose lanes are named after identity, which
// is escaped. It talks to etcd only when something is committed.
func NewCommitter(s *etcdkv.Store, identity string) *Committer {
	ctx, cancel := context.WithCancel(context.Background())
	return &Committer{
		store: s, identity: keyspace.EscapeIdentity(identity), plain: plainUnits, ctx: ctx, cancel: cancel,
		idle: make(chan struct{}), solo: map[string]time.Time{},
	}
}

// OwnLane is a committer for one call, which resolves its lost answers, and how to
// close it, whatever has become of ctx by then.
func OwnLane(ctx context.Context, s *etcdkv.Store, identity string) (c *Committer, done func()) {
	c = NewCommitter(s, identity)
	return c, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			s.Log().Debug("close lane", zap.Error(err))
		}
	}
}

// Flights returns how many Txns have been sent to etcd, repeats included, for
// measurements.
func (c *Committer) Flights() int64 { return c.requests.Load() }

// Do commits one Txn and waits for its outcome: Go and [Pending.Wait]. When ctx
// has ended already, nothing is sent.
func (c *Committer) Do(ctx context.Context, t etcdkv.Txn) (Result, error) {
	if ctx.Err() != nil {
		return Result{}, fmt.Errorf("%w: %w", fault.ErrNotSent, fault.CauseOf(ctx))
	}
	return c.Go(t).Wait(ctx)
}

// Go hands over one Txn and does not block. The Txn's slices must not change
// afterwards. Then must not put the same key twice, and Else may only get. Txns
// that meet in a key are sent in the order in which they were handed over: the
// later one leaves once the earlier one can change nothing any more.
func (c *Committer) Go(t etcdkv.Txn) *Pending {
	u := newUnit(t)
	u.owner = c
	if err := u.validate(); err != nil {
		u.settle(Result{}, err)
		return (*Pending)(u)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		u.settle(Result{}, fmt.Errorf("commit: %w", fault.ErrClosed))
		return (*Pending)(u)
	}
	c.queue = append(c.queue, u)
	c.kick()
	return (*Pending)(u)
}

// kick starts a flight where a lane is free. Called with mu held.
func (c *Committer) kick() {
	for len(c.queue) > 0 && c.ctx.Err() == nil {
		slot := c.free()
		if slot == nil {
			break
		}
		waiting := len(c.queue)
		units := c.compose(slot)
		if len(units) == 0 {
			if len(c.queue) < waiting {
				continue // those were withdrawn
			}
			break // each waits for a flight
		}
		slot.busy, slot.slow = true, false
		slot.flight++
		flight := slot.flight
		urgent, contest := context.WithCancel(c.ctx)
		slot.contest = contest
		c.wg.Go(func() {
			defer contest()
			c.fly(slot, flight, route{life: c.ctx, urgent: urgent}, units)
		})
	}
	c.contest()
	if c.closed && len(c.queue) == 0 && !c.flying() {
		select {
		case <-c.idle:
		default:
			close(c.idle)
		}
	}
}

func (c *Committer) flying() bool {
	return slices.ContainsFunc(c.lanes, func(s *laneSlot) bool { return s.busy })
}

// free returns an idle lane, unless a healthy flight is under way that what waits
// had better wait for.
func (c *Committer) free() *laneSlot {
	var idle *laneSlot
	flying := 0
	for _, s := range c.lanes {
		switch {
		case s.busy && !s.slow:
			flying++
		case !s.busy && idle == nil:
			idle = s
		}
	}
	if flying > 1 || flying == 1 && len(c.queue)-c.withdrawn < secondFlight {
		return nil
	}
	if idle == nil && len(c.lanes) < maxLanes {
		idle = &laneSlot{}
		c.lanes = append(c.lanes, idle)
	}
	return idle
}

// travelsAlone tells whether an origin was refused lately. Called with mu held.
func (c *Committer) travelsAlone(origin string) bool {
	if len(c.solo) == 0 {
		return false
	}
	until, ok := c.solo[origin]
	if ok && time.Now().After(until) {
		delete(c.solo, origin)
		ok = false
	}
	return ok
}

// fly carries one batch and starts the next.
func (c *Committer) fly(slot *laneSlot, flight int64, way route, units []*unit) {
	slow := time.AfterFunc(slowFlight, func() { c.markSlow(slot, flight) })
	defer slow.Stop()
	left := c.carry(slot, way, units)
	// Those whose Txns were just settled are about to hand over their next ones:
	// let them run first, or every other flight is nearly empty. On an idle
	// machine this takes no time.
	for range yields {
		runtime.Gosched()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range units {
		if u.isSettled() && u.culprit {
			c.solo[u.txn.Origin] = time.Now().Add(soloFor)
		}
	}
	if slot.lane != nil && slot.lane.gone {
		c.lose(slot)
	}
	slot.busy = false
	slot.open.clear()
	if len(left) > 0 {
		c.queue = append(left, c.queue...)
	}
	c.kick()
}

func (c *Committer) markSlow(slot *laneSlot, flight int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slot.busy && slot.flight == flight {
		slot.slow = true
		c.kick()
	}
}

// carry sends units in the slot's lane and returns those that were not applied, since
// the lane was gone or was moved on, and that their callers still wait for.
func (c *Committer) carry(slot *laneSlot, way route, units []*unit) (left []*unit) {
	if slot.lane == nil {
		lane, err := c.openLane()
		if err != nil {
			refuseWithoutLane(way, c.store, sendable(units), err)
			return nil
		}
		slot.lane = lane
	}
	err := slot.lane.fly(way, c.store, units)
	if err == nil {
		slot.lost = 0
		return nil
	}
	for _, u := range units {
		switch {
		case u.isSettled():
		case u.left.Load():
			u.settle(Result{}, fmt.Errorf("%w: %w", fault.ErrNotSent, errCallerGone))
		default:
			u.unsend()
			left = append(left, u)
		}
	}
	if errors.Is(err, errLaneMoved) {
		return left
	}
	// What takes the lanes away may take the next one too: no hot loop. An ended ctx
	// shows in the next flight.
	_ = etcdkv.Pause(c.ctx, slot.lost)
	slot.lost++
	return left
}

// errCallerGone is why a Txn that was certainly not applied is not sent again.
var errCallerGone = errors.New("its caller has gone")

// forgetWithdrawn lets go of units that nobody waits for, now and then.
func (c *Committer) forgetWithdrawn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.withdrawn++
	if c.withdrawn < maxWithdrawn || c.withdrawn < len(c.queue)/2 {
		return
	}
	c.withdrawn = 0
	c.queue = slices.DeleteFunc(c.queue, func(u *unit) bool { return u.phase.Load() == phaseWithdrawn })
	c.kick()
}

// Close refuses new Txns, waits until what was handed over is settled or ctx
// ends, and revokes the lanes' leases. When ctx ends first, what was not sent yet
// fails with [fault.ErrClosed], and what is in flight becomes [fault.ErrUnknown]. When it
// returns, no goroutine is left. It takes little longer than ctx, and closing
// twice is fine.
func (c *Committer) Close(ctx context.Context) error {
	err := c.Drain(ctx)
	c.mu.Lock()
	c.cancel() // under mu, so that no flight starts behind the Wait
	c.mu.Unlock()
	c.wg.Wait()
	c.mu.Lock()
	left := c.queue
	c.queue = nil
	c.kick() // nothing is left, which ends other drains
	c.mu.Unlock()
	for _, u := range left {
		if u.withdraw() {
			u.settle(Result{}, fmt.Errorf("commit: %w", fault.ErrClosed))
		}
	}
	// A lane that has ended refuses a late original for ever, as a moved one does.
	return errors.Join(err, c.endLanes(ctx))
}

// Drain refuses new Txns and waits for those under way.
func (c *Committer) Drain(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	c.kick()
	c.mu.Unlock()
	select {
	case <-c.idle:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-c.idle: // both at once: nothing is left
		return nil
	default:
		return fmt.Errorf("drain lanes: %w", fault.CauseOf(ctx))
	}
}
