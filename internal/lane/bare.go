package lane

import (
	"context"
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
)

// refuseWithoutLane settles units that were certainly not applied because of cause.
// Where it is the lane that cannot be written, since etcd is full or denies it, a unit
// that needs none is sent without: what frees space gets through.
func refuseWithoutLane(way route, s *etcdkv.Store, units []*unit, cause error) {
	stuck := etcdkv.IsNoSpace(cause) || etcdkv.IsDenied(cause)
	cause = etcdkv.WithWayOut(cause)
	for _, u := range units {
		if !stuck || !u.deletesOnce() {
			u.settle(Result{}, cause)
			continue
		}
		r, err := flyBare(way.life, s, u.txn)
		if errors.Is(err, fault.ErrUnknown) {
			u.fixed = neverFixed
		}
		u.settle(r, err)
	}
}

// deletesOnce tells that the unit only deletes, under a compare that its own success
// makes false for ever: sent again, it is never applied twice.
func (u *unit) deletesOnce() bool {
	for _, op := range u.txn.Then {
		if !op.IsDelete() {
			return false
		}
	}
	for i := range u.txn.If {
		c := u.txn.If[i].GetCompare()
		if c.Target != pb.Compare_MOD || c.Result != pb.Compare_EQUAL || c.GetModRevision() <= 0 || len(c.RangeEnd) > 0 {
			continue
		}
		for _, op := range u.txn.Then {
			if covers(op, c.Key) {
				return true
			}
		}
	}
	return false
}

// neverFixed is never closed: no lane keeps a late original out. Only a write of the key
// that it compares does.
var neverFixed = make(chan struct{})

// flyBare sends a Txn without a lane until its outcome is known. A refusal after a lost
// answer may be its own success: that is unknown.
func flyBare(ctx context.Context, s *etcdkv.Store, t etcdkv.Txn) (Result, error) {
	var doubt error
	for try := 0; ; try++ {
		reqCtx, cancel := context.WithTimeout(ctx, etcdkv.RequestTimeout)
		resp, err := s.Txn(reqCtx, t)
		cancel()
		switch {
		case err == nil && (resp.Succeeded || doubt == nil):
			return judge((*pb.TxnResponse)(resp), resp.Header.Revision), nil
		case err == nil:
			return Result{}, fault.Unknown(doubt)
		case etcdkv.NotApplied(err) && doubt == nil:
			return Result{}, err
		case final(err, try) || ctx.Err() != nil:
			return Result{}, fault.Unknown(doubt, err)
		}
		doubt = err
		_ = etcdkv.Pause(ctx, try) // the next try tells when ctx ended
	}
}
