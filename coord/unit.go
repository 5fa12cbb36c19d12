package coord

import (
	"bytes"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
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

// Get returns the key that the i-th op of the branch that happened has read, or
// nil when there was none or the op is not a get.
func (r Result) Get(i int) *mvccpb.KeyValue {
	if i >= len(r.gets) || r.gets[i] == nil || len(r.gets[i].Kvs) == 0 {
		return nil
	}
	return r.gets[i].Kvs[0]
}

// unit is one Txn on its way: queued, in flight, settled.
type unit struct {
	txn Txn
	// evidence is the key whose put proves, at the lane's revision, that Then
	// happened. Empty when Then puts nothing: then the lane adds a note of its
	// own beside itself.
	evidence string
	// writes and reads are the keys that must not meet other units' in a batch.
	writes, reads []string
	alone         bool
	size, depth   int

	phase   atomic.Int32
	trouble atomic.Pointer[error] // the last ambiguous answer
	settled chan struct{}
	result  Result
	err     error
}

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

// withdraw takes the unit back before it was sent.
func (u *unit) withdraw() bool { return u.phase.CompareAndSwap(phaseWaiting, phaseWithdrawn) }

// newUnit measures a Txn.
func newUnit(t Txn) *unit {
	u := &unit{txn: t, settled: make(chan struct{})}
	u.addTxn(t, true)
	// One more for the note that a put-less unit gets.
	u.depth = depthOf(t) + 1
	return u
}

func (u *unit) addTxn(t Txn, top bool) {
	for i := range t.If {
		cmp := t.If[i].GetCompare()
		u.size += len(cmp.Key) + len(cmp.GetValue()) + 16
		u.alone = u.alone || len(cmp.RangeEnd) > 0
		u.reads = append(u.reads, string(cmp.Key))
	}
	for _, op := range t.Then {
		u.addOp(op, top)
	}
	for _, op := range t.Else {
		u.addOp(op, false)
	}
}

func (u *unit) addOp(op clientv3.Op, proves bool) {
	if op.IsTxn() {
		cmps, then, els := op.Txn()
		u.addTxn(Txn{If: cmps, Then: then, Else: els}, false)
		return
	}
	key := string(op.KeyBytes())
	u.size += len(key) + len(op.ValueBytes()) + 16
	u.alone = u.alone || len(op.RangeBytes()) > 0
	if op.IsGet() {
		u.reads = append(u.reads, key)
		return
	}
	u.writes = append(u.writes, key)
	if proves && op.IsPut() && u.evidence == "" {
		u.evidence = key
	}
}

// depthOf is what a Txn takes from etcd's operation budget, which is counted
// down each level of nesting.
func depthOf(t Txn) int {
	own := max(len(t.If), len(t.Then), len(t.Else))
	nested := 0
	for _, ops := range [][]clientv3.Op{t.Then, t.Else} {
		for _, op := range ops {
			if op.IsTxn() {
				cmps, then, els := op.Txn()
				nested = max(nested, depthOf(Txn{If: cmps, Then: then, Else: els}))
			}
		}
	}
	return own + nested
}

// op is the unit as a nested Txn; note is the key of the lane's note for units
// that put nothing, with the batch nonce in it and on the lane's lease.
func (u *unit) op(note, nonce string, lease clientv3.LeaseID) clientv3.Op {
	then := u.txn.Then
	if u.evidence == "" {
		then = append(then[:len(then):len(then)], clientv3.OpPut(note, laneValue(nonce), clientv3.WithLease(lease)))
	}
	return clientv3.OpTxn(u.txn.If, then, u.txn.Else)
}

func (u *unit) settle(r Result, err error) {
	u.result, u.err = r, err
	close(u.settled)
}

// judge reads a unit's part of an answer to its batch.
func (u *unit) judge(resp *pb.TxnResponse, rev int64) Result {
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

// batch decides which units may share a Txn: no unit's writes may meet another
// unit's writes, compares or reads, since compares see only the state before the
// Txn while reads see its earlier writes.
type batch struct {
	units         []*unit
	size, depth   int
	writes, reads map[string]struct{}
}

const (
	maxBatchUnits = 60
	maxBatchBytes = 1 << 20
	// maxTxnOps is etcd's default --max-txn-ops.
	maxTxnOps = 128
)

func newBatch() *batch {
	return &batch{writes: map[string]struct{}{}, reads: map[string]struct{}{}}
}

// fits tells whether u may join. A unit that meets one that was passed over must
// wait behind it, so the caller blocks a passed unit's keys with block.
func (b *batch) fits(u *unit) bool {
	n := len(b.units) + 1
	if len(b.units) > 0 && (u.alone || b.units[0].alone || n > maxBatchUnits ||
		b.size+u.size > maxBatchBytes || 1+n+max(b.depth, u.depth) > maxTxnOps) {
		return false
	}
	return !b.meets(u)
}

func (b *batch) meets(u *unit) bool {
	for _, k := range u.writes {
		if _, ok := b.writes[k]; ok {
			return true
		}
		if _, ok := b.reads[k]; ok {
			return true
		}
	}
	for _, k := range u.reads {
		if _, ok := b.writes[k]; ok {
			return true
		}
	}
	return false
}

func (b *batch) block(u *unit) {
	for _, k := range u.writes {
		b.writes[k] = struct{}{}
	}
	for _, k := range u.reads {
		b.reads[k] = struct{}{}
	}
}

func (b *batch) add(u *unit) {
	b.block(u)
	b.units = append(b.units, u)
	b.size += u.size
	b.depth = max(b.depth, u.depth)
}

// compose moves what may travel together from the queue into a batch, in order.
func compose(queue []*unit, alone func(origin string) bool) (taken, left []*unit) {
	b := newBatch()
	for i, u := range queue {
		if u.phase.Load() == phaseWithdrawn {
			continue
		}
		u.alone = u.alone || alone(u.txn.Origin)
		if b.fits(u) {
			b.add(u)
			continue
		}
		left = append(left, u)
		b.block(u)
		if len(b.units) >= maxBatchUnits || b.units != nil && b.units[0].alone {
			left = append(left, queue[i+1:]...)
			break
		}
	}
	return b.units, left
}

// laneValue is the record of a lane and of its notes.
func laneValue(nonce string) string { return headOf(nonce) + "}" }

func isLaneValue(value []byte, nonce string) bool {
	return bytes.Equal(value, []byte(laneValue(nonce)))
}
