// Package lane sends Txns in lanes, many in one request: each is applied at most once,
// and what became of it is told truly, whatever gets lost.
package lane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// lane is a key that every batch rewrites under a compare of its own revision:
//
//	If ModRev(lane)=last Then Put lane {batch nonce}, unit, unit, ... Else Get lane
//
// so a batch is applied at most once however often it is sent, and a repeat finds
// out from the Else whether an earlier try was applied, at revision
// ModRev(lane). One batch is in flight at a time; only that flight touches the
// fields below.
//
// A batch of many units is lean, since what it costs etcd is the number of its parts:
// the compares that units have in common are made once, beside the lane's, and no
// unit carries its Else, which is read afterwards where one was refused. Should a
// common compare not hold, then the batch is sent again, plain, and each unit
// succeeds or loses alone.
type lane struct {
	key   string
	lease clientv3.LeaseID
	last  int64
	// plain is how many units make a batch that is not lean yet.
	plain int
	// gone is set when the lane was lost: its lease ended or somebody else wrote
	// it. A lane that is gone is never used again.
	gone bool
	// ended is closed once no late original can arrive in the lane any more, or the
	// committer is closed and could not see to that: then late is set.
	ended chan struct{}
	late  atomic.Bool
	// requests counts what is sent, over all lanes of a committer.
	requests *atomic.Int64
}

// errLaneGone sends a batch that was certainly not applied to another lane, and
// errLaneMoved sends it again: an empty batch has taken its place.
var (
	errLaneGone  = errors.New("lane gone")
	errLaneMoved = errors.New("a later write to the same key needed the outcome")
)

// errCutShort is why a committer that was closed does not know an outcome. It is
// not ErrClosed, which promises that nothing was written.
var errCutShort = errors.New("closed before the answer came")

// route is what bounds a flight: the committer's life, never a caller's, and urgent,
// which ends when a later write needs the outcome of an answer that is overdue.
type route struct{ life, urgent context.Context }

// contested tells that a later write needs the outcome.
func (w route) contested() bool { return w.urgent.Err() != nil && w.life.Err() == nil }

// stubborn is how often a batch is repeated after an error that is not known to
// pass before an empty batch finds out what became of it.
const stubborn = 3

// laneValue is the record of a lane and of its notes.
func laneValue(nonce string) string { return keyspace.Head(nonce) + "}" }

func isLaneValue(value []byte, nonce string) bool {
	return bytes.Equal(value, []byte(laneValue(nonce))) //mutant:lane-nonce
}

// wrap makes the lane's Txn of a batch. The compare closes the race with an
// earlier try of the same batch that is still on its way.
func (l *lane) wrap(units []*unit, nonce string, lean bool) etcdkv.Txn {
	value := laneValue(nonce)
	var shared []clientv3.Cmp
	var rest [][]clientv3.Cmp
	if lean {
		shared, rest = hoist(units)
	}
	then := make([]clientv3.Op, 0, 1+len(units))
	then = append(then, clientv3.OpPut(l.key, value, clientv3.WithLease(l.lease)))
	for i, u := range units {
		ops := u.thenWith(func() clientv3.Op {
			return clientv3.OpPut(l.note(i), value, clientv3.WithLease(l.lease))
		})
		cmps, els := u.txn.If, u.txn.Else
		if lean {
			cmps, els = rest[i], nil
		}
		then = append(then, clientv3.OpTxn(cmps, ops, els))
	}
	return etcdkv.Txn{
		If: append(shared,
			clientv3.Compare(clientv3.ModRevision(l.key), "=", l.last)), //mutant:lane-compare
		Then: then,
		Else: []clientv3.Op{clientv3.OpGet(l.key)},
	}
}

// note is the key that unit i of a batch puts when it leaves no evidence.
func (l *lane) note(i int) string { return l.key + "-" + strconv.Itoa(i) }

// try sends a Txn once.
func (l *lane) try(ctx context.Context, s *etcdkv.Store, txn etcdkv.Txn) (*clientv3.TxnResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, etcdkv.RequestTimeout)
	defer cancel()
	l.requests.Add(1)
	return s.Txn(ctx, txn)
}

// fly sends a batch until its outcome is known, and settles its units. After
// errLaneGone and errLaneMoved the units that are not settled were certainly not
// applied.
func (l *lane) fly(way route, s *etcdkv.Store, units []*unit) error {
	units = sendable(units)
	if len(units) == 0 {
		return nil
	}
	nonce := keyspace.NewNonce()
	lean := len(units) > l.plain
	txn := l.wrap(units, nonce, lean)
	// doubt is the last answer that proved nothing: only when there was one may
	// an earlier try have been applied.
	var doubt error
	for try := 0; ; try++ {
		if doubt == nil && way.life.Err() != nil {
			failAll(units, fmt.Errorf("%w: %w", fault.ErrNotSent, fault.ErrClosed))
			return nil
		}
		resp, err := l.try(way.urgent, s, txn)
		switch {
		case err == nil && resp.Succeeded:
			l.last = resp.Header.Revision
			if doubt != nil {
				s.Log().Debug("lost answer: the batch was not applied", zap.String("lane", l.key), zap.Int("try", try))
			}
			settleAll(way.life, s, units, resp, lean)
			return nil
		case err == nil && lean && l.unmoved(resp):
			// A common compare does not hold. The nonce stays, so that an earlier try
			// that arrives yet is found out like any.
			lean = false
			txn = l.wrap(units, nonce, lean) //mutant:lean-plain-nonce
			continue
		case err == nil:
			return l.lost(way, s, units, resp.Responses[0].GetResponseRange(), nonce, doubt)
		case etcdkv.NotApplied(err) && /*mutant:refused-in-doubt*/ doubt == nil:
			return l.refused(way, s, units, err)
		case way.life.Err() != nil:
			l.gone = true
			l.failOpen(units, fault.Unknown(errCutShort, err)) //mutant:close-cuts-short
			return nil
		case etcdkv.IsNoSpace(err) && doubt == nil:
			return l.full(way, s, units, nonce, err)
		case way.contested():
			return l.supersede(way, s, units, nonce, errLaneMoved)
		case etcdkv.IsNoSpace(err), final(err, try):
			return l.supersede(way, s, units, nonce, err)
		}
		doubt = err //mutant:answer-lost
		tell(units, err)
		s.Log().Debug("answer lost, repeat batch", zap.String("lane", l.key), zap.Int("try", try), zap.Error(err))
		// The loop's head or the next try's error tells when a ctx ends meanwhile.
		_ = etcdkv.Pause(way.urgent, try)
	}
}

// full decides a batch that etcd had no space for: it may apply such a batch and
// complain all the same. The answer ends the only try, so what the lane holds now
// says which.
func (l *lane) full(way route, s *etcdkv.Store, units []*unit, nonce string, cause error) error {
	found, err := readAll(way.life, s, []clientv3.Op{clientv3.OpGet(l.key)})
	if err != nil {
		return l.supersede(way, s, units, nonce, cause)
	}
	if holds(found[0], nonce) > 0 { //mutant:no-space-applied
		return l.lost(way, s, units, found[0], nonce, cause)
	}
	refuseWithoutLane(way, s, units, cause)
	return nil
}

// final tells that repeating a batch is no use although an earlier try may have
// been applied.
func final(err error, try int) bool {
	if errors.Is(err, fault.ErrNotSent) {
		return false
	}
	return etcdkv.NotApplied(err) || etcdkv.TooLargeToReceive(err) || try >= stubborn && !etcdkv.Passing(err)
}

// supersede decides a batch of which an earlier try may still arrive, where repeating
// it is no use: an empty batch takes its place in the lane, or, where nothing can be
// put, the lane is ended. After either a late original is refused for ever.
func (l *lane) supersede(way route, s *etcdkv.Store, units []*unit, nonce string, cause error) error {
	got, err := l.advance(way.life, s)
	if err != nil && way.life.Err() == nil {
		l.gone = true
		if held, rerr := l.revoke(way.life, s); rerr == nil {
			if holds(held, nonce) > 0 {
				return l.lost(way, s, units, held, nonce, cause)
			}
			if errors.Is(cause, errLaneMoved) {
				return errLaneGone
			}
			refuseWithoutLane(way, s, units, cause)
			return nil
		}
	}
	switch {
	case err != nil:
		l.gone = true
		l.failOpen(units, fault.Unknown(cause, err))
		return nil
	case got == nil && errors.Is(cause, errLaneMoved):
		return errLaneMoved
	case got == nil && etcdkv.IsNoSpace(cause):
		refuseWithoutLane(way, s, units, cause)
		return nil
	case got == nil: //mutant:late-original
		return l.refused(way, s, units, cause)
	}
	return l.lost(way, s, units, got, nonce, cause)
}

// failOpen settles units whose outcome may change yet, until the lane has ended.
func (l *lane) failOpen(units []*unit, err error) {
	for _, u := range units {
		u.fixed, u.late = l.ended, &l.late //mutant:outcome-fixed
		u.settle(Result{}, err)
	}
}

// advance puts an empty batch into the lane. It returns nil when that was
// applied, else what the lane holds instead; an error when the lane cannot be
// written any more.
func (l *lane) advance(ctx context.Context, s *etcdkv.Store) (*pb.RangeResponse, error) {
	nonce := keyspace.NewNonce()
	txn := l.wrap(nil, nonce, false)
	for try := 0; ; try++ {
		resp, err := l.try(ctx, s, txn)
		switch {
		case err == nil && resp.Succeeded:
			l.last = resp.Header.Revision
			return nil, nil
		case err == nil:
			got := resp.Responses[0].GetResponseRange()
			if rev := holds(got, nonce); rev > 0 {
				l.last = rev
				return nil, nil
			}
			return got, nil
		case etcdkv.NotApplied(err) && !errors.Is(err, fault.ErrNotSent) || etcdkv.IsNoSpace(err) || ctx.Err() != nil:
			return nil, err
		}
		if perr := etcdkv.Pause(ctx, try); perr != nil {
			return nil, errors.Join(perr, err)
		}
	}
}

// holds returns the revision at which the lane was written by the batch of this
// nonce, or 0.
func holds(got *pb.RangeResponse, nonce string) int64 {
	if len(got.Kvs) != 1 || !isLaneValue(got.Kvs[0].Value, nonce) {
		return 0
	}
	return got.Kvs[0].ModRevision
}

// unmoved tells from the Else of a batch that the lane's own compare did hold.
func (l *lane) unmoved(resp *clientv3.TxnResponse) bool {
	kvs := resp.Responses[0].GetResponseRange().Kvs
	return len(kvs) == 0 && l.last == 0 || len(kvs) == 1 && kvs[0].ModRevision == l.last
}

// lost judges a batch whose lane compare did not hold.
func (l *lane) lost(way route, s *etcdkv.Store, units []*unit, got *pb.RangeResponse, nonce string, doubt error) error {
	if rev := holds(got, nonce); rev > 0 {
		l.last = rev
		s.Log().Debug("lost answer: the batch was applied", zap.String("lane", l.key), zap.Int64("revision", rev))
		l.resolve(way.life, s, units, rev)
		return nil
	}
	l.gone = true
	if doubt != nil { //mutant:lane-lost-in-doubt
		failAll(units, fault.Unknown(errLaneGone, doubt))
		return nil
	}
	return errLaneGone
}

// refused handles a definite error: nothing was applied. A batch is split in
// halves until the culprit is alone.
func (l *lane) refused(way route, s *etcdkv.Store, units []*unit, err error) error {
	if etcdkv.IsLeaseNotFound(err) && !l.alive(way.life, s) {
		return errLaneGone
	}
	if len(units) == 1 {
		units[0].culprit = !errors.Is(err, fault.ErrNotSent)
		refuseWithoutLane(way, s, units, err)
		return nil
	}
	half := len(units) / 2
	if err := l.fly(way, s, units[:half]); err != nil {
		return err
	}
	if l.gone { //mutant:lane-gone
		return errLaneGone
	}
	return l.fly(way, s, units[half:])
}

// alive finds out whose lease a "lease not found" meant: an empty batch needs
// the lane's own lease and nothing else.
func (l *lane) alive(ctx context.Context, s *etcdkv.Store) bool {
	got, err := l.advance(ctx, s)
	l.gone = got != nil || err != nil
	return !l.gone
}

// settleAll hands out the answer to a batch. Those that a lean one refused are still
// to be told why.
func settleAll(ctx context.Context, s *etcdkv.Store, units []*unit, resp *clientv3.TxnResponse, lean bool) {
	var refused []replayed
	for i, u := range units {
		r := judge(resp.Responses[i+1].GetResponseTxn(), resp.Header.Revision)
		if lean && !r.Succeeded && len(u.txn.Else) > 0 { //mutant:lean-refusal-read
			refused = append(refused, replayed{unit: u})
			continue
		}
		u.settle(r, nil)
	}
	replay(ctx, s, resp.Header.Revision, refused)
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

// tell lets the callers who give up meanwhile know what the trouble is.
func tell(units []*unit, trouble error) {
	for _, u := range units {
		u.trouble.Store(&trouble)
	}
}

func failAll(units []*unit, err error) {
	for _, u := range units {
		u.settle(Result{}, err)
	}
}
