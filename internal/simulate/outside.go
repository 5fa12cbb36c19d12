package simulate

import "sync"

// effect is what a job does outside etcd, with what the library gives for it.
type effect struct {
	job   string
	key   string // idempotency key; "" where the mode has none
	token int64  // of the claim; 0 where the mode has none
}

// outside is a store outside etcd that does what a store should with tokens and
// idempotency keys: it keeps the highest token per job and refuses lower ones, and
// ignores effects that it has seen. Safe for concurrent use.
type outside struct {
	mu      sync.Mutex
	highest map[string]int64
	seen    map[string]bool
	applied map[string]int
	lower   int // refused
	again   int // ignored
}

func newOutside() *outside {
	return &outside{highest: map[string]int64{}, seen: map[string]bool{}, applied: map[string]int{}}
}

// apply takes an effect, or does not.
func (o *outside) apply(e effect) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e.key != "" {
		if e.token < o.highest[e.job] { //mutant:outside-store
			o.lower++
			return
		}
		o.highest[e.job] = e.token
		if o.seen[e.key] {
			o.again++
			return
		}
		o.seen[e.key] = true
	}
	o.applied[e.job]++
}

// effects is what the store saw.
type effects struct{ doubled, missing, lower, again int }

// tally counts what the store saw of a number of jobs.
func (o *outside) tally(jobs int) effects {
	o.mu.Lock()
	defer o.mu.Unlock()
	e := effects{lower: o.lower, again: o.again}
	for i := range jobs {
		switch n := o.applied[jobID(i)]; {
		case n == 0:
			e.missing++
		case n > 1:
			e.doubled++
		}
	}
	return e
}
