package lane

const (
	maxBatchUnits = 112 // what etcd's budget leaves for units as deep as a claim
	maxBatchBytes = 1 << 20
	// maxTxnOps is etcd's default --max-txn-ops.
	maxTxnOps = 128
	// maxPassed bounds how far compose looks behind a unit that must wait.
	maxPassed = 4 * maxBatchUnits
)

// batch decides which units may share a Txn: no unit's writes may meet another
// unit's writes, compares or reads, since compares see only the state before the
// Txn while reads see its earlier writes.
//
// The zero value is ready; reset makes it ready again without giving its map
// back.
type batch struct {
	units       []*unit
	size, depth int
	taken       *openKeys   // of the units taken
	open        []*openKeys // of flights under way
	// passed holds the keys of the units passed over: what meets one must wait behind
	// it. held tells that one of those keeps its order.
	passed map[uint64]bool // true: written
	held   bool
}

func (b *batch) reset(expect int, taken *openKeys, open []*openKeys) {
	b.units = make([]*unit, 0, min(expect, maxBatchUnits))
	b.size, b.depth, b.held = 0, 0, false
	b.taken, b.open = taken, open
	b.taken.clear()
	if b.taken.keys == nil {
		b.taken.keys = map[uint64]bool{}
	}
	if b.passed == nil {
		b.passed = map[uint64]bool{}
	}
	clear(b.passed)
}

func (b *batch) full() bool {
	return len(b.units) >= maxBatchUnits || len(b.units) > 0 && b.units[0].alone
}

// fits tells whether u may join.
func (b *batch) fits(u *unit) bool {
	if /*mutant:order-held*/ b.held && u.txn.InOrder || /*mutant:order-passed*/ u.meets(b.passed) {
		return false
	}
	for _, o := range b.open {
		if o.meets(u) { //mutant:order-open-flight
			return false
		}
	}
	return len(b.units) == 0 || !u.alone && !b.full() && b.size+u.size <= maxBatchBytes &&
		roomFor(len(b.units)+1, max(b.depth, u.depth)) && !u.meets(b.taken.keys)
}

// roomFor tells whether etcd's operation budget has room for a lane Txn of so
// many units, the deepest of which takes depth: the lane's own put and one nested
// Txn each come off first, or its own compare and those that are hoisted.
func roomFor(units, depth int) bool {
	if units > 1 {
		units = max(units, maxHoisted)
	}
	return 1+units+depth <= maxTxnOps
}

// pass leaves a unit behind in the queue.
func (b *batch) pass(u *unit) {
	b.held = b.held || u.txn.InOrder
	note(b.passed, u)
}

func (b *batch) add(u *unit) {
	note(b.taken.keys, u)
	b.units = append(b.units, u)
	b.taken.units = b.units
	b.taken.ranged = b.taken.ranged || u.ranged
	b.taken.ordered = b.taken.ordered || u.txn.InOrder
	b.size += u.size
	b.depth = max(b.depth, u.depth)
}

func note(keys map[uint64]bool, u *unit) {
	for _, t := range u.touches {
		keys[t.key] = keys[t.key] || t.write
	}
}

// compose moves what may travel together from the queue into a batch, keeping
// the order of units that meet, and drops what was withdrawn. It works in place:
// the queue's array holds what is left, in its order. The keys of what was taken go
// to keys; what meets one of open waits for that flight.
func (b *batch) compose(queue []*unit, alone func(origin string) bool, keys *openKeys, open []*openKeys) (taken, left []*unit) {
	b.reset(len(queue), keys, open)
	kept, next := 0, 0
	for ; next < len(queue) && !b.full() && kept < maxPassed; next++ {
		u := queue[next]
		if u.phase.Load() == phaseWithdrawn {
			continue
		}
		u.alone = u.ranged || alone(u.txn.Origin)
		if b.fits(u) {
			b.add(u)
			continue
		}
		queue[kept] = u
		kept++
		if u.ranged {
			// Its keys cannot be told from those of the units behind it.
			next++
			break
		}
		b.pass(u)
	}
	kept += copy(queue[kept:], queue[next:])
	clear(queue[kept:])
	return b.units, queue[:kept]
}
