package coord

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	// laneTTL is how long a lane outlives its process.
	laneTTL = 10 * time.Minute
	// maxLaneLeases is how many leases Close revokes; older ones that were given
	// up end by themselves.
	maxLaneLeases = 8
)

// laneLeases are the leases that a committer's lanes are on: the current one,
// for lanes to come, and those before it. The fields are under the committer's
// mutex.
type laneLeases struct {
	current clientv3.LeaseID
	owner   string // lanes/<owner>/, new with each lease
	all     []clientv3.LeaseID
	opened  int // numbers the lanes, so that no name is used twice
}

// laneLease returns the current lease, granting one if there is none.
func (c *Committer) laneLease() (clientv3.LeaseID, string, error) {
	c.mu.Lock()
	id, owner := c.leases.current, c.leases.owner
	c.mu.Unlock()
	if id != 0 {
		return id, owner, nil
	}
	id, _, err := c.store.Grant(c.ctx, laneTTL)
	if err != nil {
		return 0, "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := &c.leases
	l.all = append(l.all, id)
	l.all = l.all[max(0, len(l.all)-maxLaneLeases):]
	if l.current == 0 { // else another slow lane was faster, and this one stays empty
		l.current, l.owner = id, c.identity+"."+hex16(uint64(id))
		c.wg.Go(func() { c.renewLanes(id) })
	}
	return l.current, l.owner, nil
}

func (c *Committer) nextLane() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leases.opened++
	return c.leases.opened - 1
}

// dropLease keeps lanes to come off a lease that a lane was lost with.
func (c *Committer) dropLease(id clientv3.LeaseID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leases.current == id {
		c.leases.current, c.leases.owner = 0, ""
	}
}

// renewLanes keeps a lease until it is gone or the committer closed.
func (c *Committer) renewLanes(id clientv3.LeaseID) {
	tick := time.NewTicker(laneTTL / 3)
	defer tick.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-tick.C:
		}
		if !c.renewLanesOnce(id) {
			c.dropLease(id)
			return
		}
	}
}

// renewLanesOnce tries until an answer came; false means that the lease is gone.
func (c *Committer) renewLanesOnce(id clientv3.LeaseID) bool {
	r := c.store.backend.renewer(id)
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

// revokeLanes ends all leases, with their lanes; each is tried once even when ctx
// has ended.
func (c *Committer) revokeLanes(ctx context.Context) error {
	c.mu.Lock()
	leases := c.leases.all
	c.leases = laneLeases{opened: c.leases.opened}
	c.mu.Unlock()
	ctx, cancel := boundedCleanup(ctx)
	defer cancel()
	var err error
	for _, id := range leases {
		if rerr := c.store.Revoke(ctx, id); rerr != nil {
			err = rerr // one of them is enough to say: they share their cause
		}
	}
	return err
}
