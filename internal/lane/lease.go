package lane

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// laneTTL is how long a lane outlives its process.
const laneTTL = 10 * time.Minute

// openLane makes a lane that was never used before, on a lease of its own: ending the
// lease ends this lane and no other.
func (c *Committer) openLane() (*lane, error) {
	lease, _, err := c.store.Grant(c.ctx, laneTTL)
	if err != nil {
		if c.ctx.Err() != nil {
			err = fault.ErrClosed
		}
		return nil, fmt.Errorf("open lane: %w: %w", fault.ErrNotSent, err)
	}
	c.mu.Lock()
	n := c.opened
	c.opened++
	c.mu.Unlock()
	l := &lane{
		key: c.store.Keys().Lane(c.identity+"."+keyspace.Hex16(uint64(lease)), n), lease: lease,
		plain: c.plain, requests: &c.requests, ended: make(chan struct{}),
	}
	c.wg.Go(func() { c.renewLane(l) })
	return l, nil
}

// renewLane keeps a lane's lease until the lane has ended or the committer closed.
func (c *Committer) renewLane(l *lane) {
	tick := time.NewTicker(laneTTL / 3)
	defer tick.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-l.ended:
			return
		case <-tick.C:
		}
		if !c.renewLaneOnce(l.lease) {
			return // its next flight finds out
		}
	}
}

// renewLaneOnce tries until an answer came; false means that the lease is gone.
func (c *Committer) renewLaneOnce(id clientv3.LeaseID) bool {
	r := c.store.Renewer(id)
	defer r.Close()
	for try := 0; ; try++ {
		ctx, cancel := context.WithTimeout(c.ctx, etcdkv.RequestTimeout)
		ttl, err := r.Renew(ctx)
		cancel()
		if err == nil {
			return ttl > 0
		}
		if etcdkv.Pause(c.ctx, try) != nil {
			return true
		}
		c.store.Log().Debug("renew lane", zap.Error(err))
	}
}

// lostLane is a lane that is used no more, although an original may still arrive in it.
type lostLane struct {
	lane *lane
	open openKeys // of its last flight
}

// lose takes a lane that is gone out of its slot and ends it behind: until then the
// keys of its last flight stay open. Called with mu held.
func (c *Committer) lose(slot *laneSlot) {
	l := &lostLane{lane: slot.lane, open: slot.open}
	slot.lane, slot.open = nil, openKeys{}
	c.ending = append(c.ending, l)
	if c.ctx.Err() == nil { // else Close ends it
		c.wg.Go(func() { c.endLane(l) })
	}
}

// endLane ends the lease of a lost lane, or waits until it has run out: a late original
// is refused from then on.
func (c *Committer) endLane(l *lostLane) {
	for began, try := time.Now(), 0; time.Since(began) < laneTTL+time.Minute; try++ {
		err := c.store.Revoke(c.ctx, l.lane.lease)
		if err == nil {
			break
		}
		c.store.Log().Debug("end lane", zap.String("lane", l.lane.key), zap.Error(err))
		if !etcdkv.Sleep(c.ctx, min(50*time.Millisecond<<min(try, 5), time.Second)) {
			return // Close ends it
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over(l)
	c.kick()
}

// over forgets a lost lane that has ended. Called with mu held.
func (c *Committer) over(l *lostLane) {
	for i, e := range c.ending {
		if e == l {
			c.ending = append(c.ending[:i:i], c.ending[i+1:]...)
			l.lane.end()
			return
		}
	}
}

// endLanes ends all lanes when the committer is closed; each is tried once even when
// ctx has ended.
func (c *Committer) endLanes(ctx context.Context) error {
	c.mu.Lock()
	all := c.ending
	for _, s := range c.lanes {
		if s.lane != nil {
			all = append(all, &lostLane{lane: s.lane})
		}
	}
	c.lanes, c.ending = nil, nil
	c.mu.Unlock()
	ctx, cancel := etcdkv.BoundedCleanup(ctx)
	defer cancel()
	var err error
	for _, l := range all {
		rerr := c.store.Revoke(ctx, l.lane.lease)
		if rerr != nil {
			err = rerr // one of them is enough to say: they share their cause
			l.lane.late.Store(true)
		}
		l.lane.end() // nothing here ends it later: who waits must go on
	}
	return err
}

// end wakes who waits until no late original can arrive in the lane any more.
func (l *lane) end() {
	select {
	case <-l.ended:
	default:
		close(l.ended)
	}
}

// revoke ends the lane where nothing can be put any more, and returns what the lane
// held at its end. An error means that the outcome of what was sent cannot be read.
func (l *lane) revoke(ctx context.Context, s *etcdkv.Store) (*pb.RangeResponse, error) {
	rev, err := s.RevokeAt(ctx, l.lease)
	if err != nil {
		return nil, err
	}
	l.end()
	if rev == 0 {
		return nil, errors.New("the lane's lease had ended before")
	}
	// The lease takes the lane with it at rev, so the revision before shows its last
	// value; a lane that was never written is not there either way.
	found, err := readAll(ctx, s, []clientv3.Op{clientv3.OpGet(l.key, clientv3.WithRev(rev-1))})
	if err != nil {
		return nil, err
	}
	return found[0], nil
}
