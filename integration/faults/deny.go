package faults

import (
	"context"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leasekit/leasekit/integration/etcdtest"
)

// Denial is how etcd refuses a write outright.
type Denial int

const (
	// Permission is what a user hears whose role was taken away: of any write.
	Permission Denial = iota
	// Space is what everybody hears once the quota is used up: of writes that put.
	Space
	// Size is what those hear who send too much at once: of writes of several units.
	Size
)

// Deny loses the answer of one client's write, and refuses what the client writes then,
// such as the repeat of that write: the refusal says nothing about what was lost.
type Deny struct {
	Denial Denial
	// Part bounds it to writes of keys that contain it.
	Part string
}

// Name is "deny-permission", "deny-space" or "deny-size", with the part.
func (f Deny) Name() string {
	return "deny-" + [...]string{"permission", "space", "size"}[f.Denial] + f.Part
}

// Inject lies in wait for a write of any client that has a plan, and blocks until there
// is one, for 2 seconds at most.
func (f Deny) Inject(ctx context.Context, env *Env) (Heal, error) {
	plans, returned := borrow(env, env.Plans)
	if len(plans) == 0 {
		return nil, ErrNotHere
	}
	end := now(func() {
		for _, p := range plans {
			p.Set(nil)
		}
	})
	heal := healing(f.Name(), returned, end)
	t := time.NewTimer(traffic)
	defer t.Stop()
	select {
	case <-f.lieInWait(plans):
		return heal, nil
	case <-t.C:
	case <-ctx.Done():
	}
	return nil, joinHeal(ctx, ErrNotHere, heal)
}

// lieInWait denies what the client writes that writes first; hit is closed then.
func (f Deny) lieInWait(plans []*etcdtest.Plan) (hit <-chan struct{}) {
	var (
		mu     sync.Mutex
		victim *etcdtest.Plan
	)
	found := make(chan struct{})
	for _, p := range plans {
		p.Set(func(c etcdtest.Call) etcdtest.Fate {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case c.Method != "Txn" || !c.Writes(f.Part) || victim != nil && victim != p:
				return etcdtest.Fate{}
			case victim == nil:
				victim = p
				close(found)
				return etcdtest.Fate{Lose: status.Error(codes.Unavailable, "the answer was lost")}
			}
			return f.fate(c)
		})
	}
	return found
}

// fate is what becomes of a write behind the one whose answer was lost.
func (f Deny) fate(c etcdtest.Call) etcdtest.Fate {
	switch f.Denial {
	case Permission:
		return etcdtest.Fate{Refuse: rpctypes.ErrGRPCPermissionDenied}
	case Space:
		if c.Puts(f.Part) {
			return etcdtest.Fate{Refuse: rpctypes.ErrGRPCNoSpace}
		}
	case Size:
		if units(c.Request) > 1 {
			return etcdtest.Fate{Refuse: rpctypes.ErrGRPCRequestTooLarge}
		}
	}
	return etcdtest.Fate{}
}

// units counts what was put together in one write: the Txns in it.
func units(request any) (n int) {
	txn, ok := request.(*pb.TxnRequest)
	if !ok {
		return 0
	}
	for _, op := range txn.Success {
		if nested := op.GetRequestTxn(); nested != nil {
			n++
		}
	}
	return n
}
