package lane

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
)

// Result is what a Txn did.
type Result struct {
	// Succeeded tells whether If held, so that Then happened; otherwise Else did.
	Succeeded bool
	// Revision is the store's revision after the Txn: the ModRevision of every
	// key that it put.
	Revision int64
	// gets holds the answer of each op of the branch that happened; nil for ops
	// that are no gets.
	gets []*pb.RangeResponse
}

// Get returns the first key that the i-th op of the branch that happened has
// read, or nil when there was none or the op is not a get.
func (r Result) Get(i int) *mvccpb.KeyValue {
	if i < 0 || i >= len(r.gets) || r.gets[i] == nil || len(r.gets[i].Kvs) == 0 {
		return nil
	}
	return r.gets[i].Kvs[0]
}

// unit is one Txn on its way: queued, in flight, settled.
type unit struct {
	txn etcdkv.Txn
	// evidence is the key whose put proves, at the lane's revision, that Then
	// happened. Empty when Then itself puts nothing: then the lane adds a note of
	// its own beside itself.
	evidence string
	// touches are the keys that must not meet other units' in a batch.
	touches []touch
	inline  [6]touch // where touches begins
	// ranged units touch more than single keys: nothing overtakes them.
	ranged bool
	// alone units share no batch.
	alone       bool
	gets        bool // Then reads something
	size, depth int

	owner   *Committer // told of a withdrawal; nil in tests
	phase   atomic.Int32
	left    atomic.Bool           // its caller has gone without the outcome
	trouble atomic.Pointer[error] // the last ambiguous answer
	settled chan struct{}
	// The rest is written before settled is closed, and read after it.
	result Result
	err    error
	// fixed is closed once the outcome can change no more; nil: it is settled.
	fixed <-chan struct{}
	// late tells, once fixed is closed, that the outcome may change all the same; nil: it
	// may not.
	late *atomic.Bool
	// culprit tells that etcd itself refused this unit, alone in its Txn.
	culprit bool
}

// touch is one key that a unit compares, reads or writes. Keys are known by
// their hash: two keys of one hash make two units wait for each other in vain,
// which is harmless.
type touch struct {
	key   uint64
	write bool
}

var touchSeed = maphash.MakeSeed()

// The phases of a unit: whoever moves it out of waiting decides whether it is
// ever sent.
const (
	phaseWaiting = iota
	phaseSent
	phaseWithdrawn
)

// send claims the unit for a flight; false means that its caller withdrew it.
func (u *unit) send() bool {
	return u.phase.CompareAndSwap(phaseWaiting, phaseSent) || u.phase.Load() == phaseSent
}

// unsend makes a unit that was certainly not applied wait again.
func (u *unit) unsend() { u.phase.CompareAndSwap(phaseSent, phaseWaiting) }

// withdraw takes the unit back before it was sent.
func (u *unit) withdraw() bool {
	return u.phase.CompareAndSwap(phaseWaiting, phaseWithdrawn) //mutant:withdraw-unsent
}

// newUnit measures a Txn.
func newUnit(t etcdkv.Txn) *unit {
	u := &unit{txn: t, settled: make(chan struct{})}
	u.touches = u.inline[:0]
	u.addTxn(t, true)
	u.evidence = evidenceOf(t.Then)
	u.depth = depthOf(t)
	if u.evidence == "" {
		u.depth++ // the note
	}
	return u
}

func (u *unit) addTxn(t etcdkv.Txn, top bool) {
	for i := range t.If {
		cmp := t.If[i].GetCompare()
		u.size += len(cmp.Key) + len(cmp.GetValue()) + 16
		u.ranged = u.ranged || len(cmp.RangeEnd) > 0
		u.touch(cmp.Key, false)
	}
	for _, op := range t.Then {
		u.gets = u.gets || top && op.IsGet()
		u.addOp(op)
	}
	for _, op := range t.Else {
		u.addOp(op)
	}
	u.alone = u.alone || u.ranged
}

func (u *unit) addOp(op clientv3.Op) {
	if op.IsTxn() {
		cmps, then, els := op.Txn()
		u.size += 16
		u.addTxn(etcdkv.Txn{If: cmps, Then: then, Else: els}, false)
		return
	}
	u.size += len(op.KeyBytes()) + len(op.ValueBytes()) + 16
	u.ranged = u.ranged || len(op.RangeBytes()) > 0
	u.touch(op.KeyBytes(), !op.IsGet())
}

func (u *unit) touch(key []byte, write bool) {
	t := touch{key: maphash.Bytes(touchSeed, key), write: write}
	for i := range min(len(u.touches), 16) {
		if u.touches[i].key == t.key {
			u.touches[i].write = u.touches[i].write || write
			return
		}
	}
	u.touches = append(u.touches, t)
}

// evidenceOf is the first key that Then itself puts. It is there afterwards: etcd
// refuses a Txn that also deletes it, in nested Txns too, and other units of the
// batch do not touch it.
func evidenceOf(then []clientv3.Op) string {
	for _, op := range then {
		if op.IsPut() {
			return string(op.KeyBytes())
		}
	}
	return ""
}

// overlap tells whether two ops that are no Txns have a key in common.
func overlap(a, b clientv3.Op) bool {
	return covers(a, b.KeyBytes()) || covers(b, a.KeyBytes())
}

func covers(op clientv3.Op, key []byte) bool {
	from, end := op.KeyBytes(), op.RangeBytes()
	if len(end) == 0 {
		return bytes.Equal(from, key)
	}
	return bytes.Compare(from, key) <= 0 && (len(end) == 1 && end[0] == 0 || bytes.Compare(key, end) < 0)
}

// depthOf is what a Txn takes from etcd's operation budget, which is counted
// down each level of nesting.
func depthOf(t etcdkv.Txn) int {
	own := max(len(t.If), len(t.Then), len(t.Else))
	nested := 0
	for _, ops := range [2][]clientv3.Op{t.Then, t.Else} {
		for _, op := range ops {
			if op.IsTxn() {
				cmps, then, els := op.Txn()
				nested = max(nested, depthOf(etcdkv.Txn{If: cmps, Then: then, Else: els}))
			}
		}
	}
	return own + nested
}

// validate refuses what could never be sent or never be resolved.
func (u *unit) validate() error {
	refuse := func(value, reason string) error {
		return &fault.InputError{Field: "transaction", Value: value, Reason: reason}
	}
	if u.size > maxBatchBytes {
		return refuse(fmt.Sprint(u.size), fmt.Sprintf("it has more than %d bytes, which etcd may refuse; keep large data outside etcd", maxBatchBytes))
	}
	if !roomFor(1, u.depth) {
		return refuse(fmt.Sprint(u.depth), fmt.Sprintf("it has too many operations and compares for one etcd Txn (%d)", maxTxnOps))
	}
	for _, op := range u.txn.Else {
		if !op.IsGet() {
			return refuse(string(op.KeyBytes()), "Else may only get")
		}
	}
	if u.gets {
		for i := range u.txn.Then {
			if _, err := replayRev(u.txn.Then, i, 2); err != nil {
				return refuse(string(u.txn.Then[i].KeyBytes()), err.Error())
			}
		}
	}
	return nil
}

var errReadBetween = errors.New("a get of Then reads a key between two writes of it")

// replayRev is the revision at which the i-th op of a branch, a get, sees now
// what it saw inside the Txn that was applied at rev: reads see the earlier
// writes of their own Txn, not the later ones.
func replayRev(ops []clientv3.Op, i int, rev int64) (int64, error) {
	if !ops[i].IsGet() || !writes(ops[i+1:], ops[i]) {
		return rev, nil
	}
	if writes(ops[:i], ops[i]) {
		return 0, errReadBetween
	}
	return rev - 1, nil
}

func writes(ops []clientv3.Op, get clientv3.Op) bool {
	for _, op := range ops {
		if op.IsTxn() {
			_, then, els := op.Txn()
			if writes(then, get) || writes(els, get) {
				return true
			}
		} else if !op.IsGet() && overlap(op, get) {
			return true
		}
	}
	return false
}

// thenWith is Then; put is the lane's note, for units that leave no evidence of their
// own.
func (u *unit) thenWith(put func() clientv3.Op) []clientv3.Op {
	then := u.txn.Then
	if u.evidence == "" {
		then = append(then[:len(then):len(then)], put())
	}
	return then
}

func (u *unit) settle(r Result, err error) {
	u.result, u.err = r, err
	close(u.settled)
}

// isSettled makes the outcome safe to read.
func (u *unit) isSettled() bool {
	select {
	case <-u.settled:
		return true
	default:
		return false
	}
}

// judge reads a unit's part of an answer to its batch. The note's response, if
// any, is the last one and no get.
func judge(resp *pb.TxnResponse, rev int64) Result {
	r := Result{Succeeded: resp.Succeeded, Revision: rev}
	for i, op := range resp.Responses {
		if rr := op.GetResponseRange(); rr != nil {
			if r.gets == nil {
				r.gets = make([]*pb.RangeResponse, len(resp.Responses))
			}
			r.gets[i] = rr
		}
	}
	return r
}
