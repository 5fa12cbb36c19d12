package coord

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
	// seen holds the keys of the units taken and of those passed over: whoever
	// meets one that was passed over must wait behind it.
	seen map[uint64]bool // true: written
}

func (b *batch) reset(expect int) {
	b.units = make([]*unit, 0, min(expect, maxBatchUnits))
	b.size, b.depth = 0, 0
	if b.seen == nil {
		b.seen = map[uint64]bool{}
	}
	clear(b.seen)
}

func (b *batch) full() bool {
	return len(b.units) >= maxBatchUnits || len(b.units) > 0 && b.units[0].alone
}

// fits tells whether u may join.
func (b *batch) fits(u *unit) bool {
	if len(b.units) == 0 {
		return true
	}
	return !u.alone && !b.full() && b.size+u.size <= maxBatchBytes &&
		roomFor(len(b.units)+1, max(b.depth, u.depth)) && !b.meets(u)
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

func (b *batch) meets(u *unit) bool {
	for _, t := range u.touches {
		if written, ok := b.seen[t.key]; ok && (written || t.write) {
			return true
		}
	}
	return false
}

func (b *batch) block(u *unit) {
	for _, t := range u.touches {
		b.seen[t.key] = b.seen[t.key] || t.write
	}
}

func (b *batch) add(u *unit) {
	b.block(u)
	b.units = append(b.units, u)
	b.size += u.size
	b.depth = max(b.depth, u.depth)
}

// compose moves what may travel together from the queue into a batch, keeping
// the order of units that meet, and drops what was withdrawn. It works in place:
// the queue's array holds what is left, in its order.
func (b *batch) compose(queue []*unit, alone func(origin string) bool) (taken, left []*unit) {
	b.reset(len(queue))
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
		b.block(u)
	}
	kept += copy(queue[kept:], queue[next:])
	clear(queue[kept:])
	return b.units, queue[:kept]
}
