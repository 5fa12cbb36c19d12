package coord

import (
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// lane is a key that every batch rewrites under a compare of its own revision:
//
//	If ModRev(lane)=last Then Put lane {batch nonce}, unit, unit, ... Else Get lane
//
// so a batch is applied at most once however often it is sent, and a repeat finds
// out from the Else whether an earlier try was applied, at revision
// ModRev(lane). One batch is in flight at a time; only that flight touches the
// fields below.
type lane struct {
	key   string
	lease clientv3.LeaseID
	last  int64
	// gone is set when the lane was lost: its lease ended or somebody else wrote
	// it. A lane that is gone is never used again.
	gone bool
}

// errLaneGone sends a batch that was certainly not applied to another lane.
var errLaneGone = errors.New("lane gone")

// wrap makes the lane's Txn of a batch.
func (l *lane) wrap(units []*unit, nonce string) Txn {
	then := make([]clientv3.Op, 0, 1+len(units))
	then = append(then, clientv3.OpPut(l.key, laneValue(nonce), clientv3.WithLease(l.lease)))
	for i, u := range units {
		then = append(then, u.op(l.note(i), nonce, l.lease))
	}
	return Txn{
		If:   []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(l.key), "=", l.last)},
		Then: then,
		Else: []clientv3.Op{clientv3.OpGet(l.key)},
	}
}

// note is the key that unit i of a batch puts when it puts nothing else.
func (l *lane) note(i int) string { return fmt.Sprintf("%s-%d", l.key, i) }

// fly sends a batch until its outcome is known, and settles its units. After
// errLaneGone the units that are not settled were certainly not applied and need
// another lane. ctx is the committer's life, never a caller's.
func (l *lane) fly(ctx context.Context, s *Store, units []*unit) error {
	units = sendable(units)
	if len(units) == 0 {
		return nil
	}
	nonce := NewNonce()
	txn := l.wrap(units, nonce)
	// sent stays false until an answer was lost: only then may an earlier try
	// have been applied.
	sent := false
	for try := 0; ; try++ {
		reqCtx, cancel := context.WithTimeout(ctx, requestTimeout)
		resp, err := s.txn(reqCtx, txn)
		cancel()
		switch {
		case err == nil && resp.Succeeded:
			l.last = resp.Header.Revision
			settleAll(units, resp)
			return nil
		case err == nil:
			return l.lost(ctx, s, units, resp.Responses[0].GetResponseRange(), nonce, sent)
		case notApplied(err) && !sent:
			return l.refused(ctx, s, units, err)
		case ctx.Err() != nil:
			l.gone = true
			failAll(units, unknown(errors.Join(err, causeOf(ctx))))
			return nil
		case notApplied(err):
			return l.supersede(ctx, s, units, nonce, err)
		}
		sent = true
		for _, u := range units {
			u.trouble.Store(&err)
		}
		if try > 0 {
			s.log.Debug("repeat batch", zap.String("lane", l.key), zap.Int("try", try), zap.Error(err))
		}
		if err := pause(ctx, try); err != nil {
			l.gone = true
			failAll(units, unknown(err))
			return nil
		}
	}
}

// supersede decides a batch that etcd now refuses outright while an earlier try
// of it may still arrive: an empty batch takes its place in the lane, after which
// a late original is refused for ever.
func (l *lane) supersede(ctx context.Context, s *Store, units []*unit, nonce string, cause error) error {
	own := NewNonce()
	txn := l.wrap(nil, own)
	for try := 0; ; try++ {
		reqCtx, cancel := context.WithTimeout(ctx, requestTimeout)
		resp, err := s.txn(reqCtx, txn)
		cancel()
		switch {
		case err == nil && resp.Succeeded:
			l.last = resp.Header.Revision
			return l.refused(ctx, s, units, cause)
		case err == nil:
			got := resp.Responses[0].GetResponseRange()
			if len(got.Kvs) == 1 && isLaneValue(got.Kvs[0].Value, own) {
				l.last = got.Kvs[0].ModRevision
				return l.refused(ctx, s, units, cause)
			}
			return l.lost(ctx, s, units, got, nonce, true)
		case notApplied(err) || ctx.Err() != nil:
			l.gone = true
			failAll(units, unknown(err))
			return nil
		}
		if err := pause(ctx, try); err != nil {
			l.gone = true
			failAll(units, unknown(err))
			return nil
		}
	}
}

// lost judges a batch whose lane compare did not hold.
func (l *lane) lost(ctx context.Context, s *Store, units []*unit, got *pb.RangeResponse, nonce string, sent bool) error {
	if len(got.Kvs) == 1 && isLaneValue(got.Kvs[0].Value, nonce) {
		l.last = got.Kvs[0].ModRevision
		return l.resolve(ctx, s, units, l.last)
	}
	l.gone = true
	if sent {
		failAll(units, unknown(errLaneGone))
		return nil
	}
	return errLaneGone
}

// refused handles a definite error: nothing was applied. A batch is split in
// halves until the culprit is alone.
func (l *lane) refused(ctx context.Context, s *Store, units []*unit, err error) error {
	if isLeaseNotFound(err) && !l.alive(ctx, s) {
		l.gone = true
		return errLaneGone
	}
	if len(units) == 1 {
		units[0].settle(Result{}, err)
		return nil
	}
	half := len(units) / 2
	if err := l.fly(ctx, s, units[:half]); err != nil {
		return err
	}
	if l.gone {
		return errLaneGone
	}
	return l.fly(ctx, s, units[half:])
}

// alive asks whether the lane's own lease still exists, to tell whose lease a
// "lease not found" meant. A doubt counts as alive: the split finds out.
func (l *lane) alive(ctx context.Context, s *Store) bool {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	r := s.backend.renewer(l.lease)
	defer r.close()
	ttl, err := r.renew(ctx)
	return err != nil || ttl > 0
}

// resolve finds out what each unit of a batch did that was applied at revision
// rev by a try whose answer was lost, by reading at that revision.
func (l *lane) resolve(ctx context.Context, s *Store, units []*unit, rev int64) error {
	for i, u := range units {
		evidence := u.evidence
		if evidence == "" {
			evidence = l.note(i)
		}
		r, err := u.resolve(ctx, s, evidence, rev)
		if err != nil {
			u.settle(Result{}, unknown(err))
			continue
		}
		u.settle(r, nil)
	}
	return nil
}

// resolve replays one unit's reads at rev: it succeeded exactly if the key that
// it always puts has that mod revision there.
func (u *unit) resolve(ctx context.Context, s *Store, evidence string, rev int64) (Result, error) {
	kvs, err := getAt(ctx, s, evidence, rev)
	if err != nil {
		return Result{}, err
	}
	r := Result{Revision: rev, Succeeded: len(kvs.Kvs) == 1 && kvs.Kvs[0].ModRevision == rev}
	ops := u.txn.Else
	if r.Succeeded {
		ops = u.txn.Then
	}
	r.gets = make([]*pb.RangeResponse, len(ops))
	for i, op := range ops {
		if !op.IsGet() {
			continue
		}
		if r.gets[i], err = getAt(ctx, s, string(op.KeyBytes()), rev); err != nil {
			return Result{}, err
		}
	}
	return r, nil
}

// getAt reads a key at a revision, again and again until etcd answers: the
// outcome hangs on it. Compaction is final.
func getAt(ctx context.Context, s *Store, key string, rev int64) (*pb.RangeResponse, error) {
	for try := 0; ; try++ {
		resp, err := s.Get(ctx, key, clientv3.WithRev(rev))
		switch {
		case err == nil:
			return (*pb.RangeResponse)(resp), nil
		case isCompacted(err) || ctx.Err() != nil || isAuthError(err):
			return nil, err
		}
		if err := pause(ctx, try); err != nil {
			return nil, err
		}
	}
}

func settleAll(units []*unit, resp *clientv3.TxnResponse) {
	for i, u := range units {
		u.settle(u.judge(resp.Responses[i+1].GetResponseTxn(), resp.Header.Revision), nil)
	}
}

// sendable leaves out the units that were withdrawn before their first flight.
func sendable(units []*unit) []*unit {
	out := make([]*unit, 0, len(units))
	for _, u := range units {
		if u.send() {
			out = append(out, u)
		}
	}
	return out
}

func failAll(units []*unit, err error) {
	for _, u := range units {
		u.settle(Result{}, err)
	}
}
