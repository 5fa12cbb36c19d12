package ready

import (
	"iter"
	"math/bits"
	"math/rand/v2"

	"github.com/leasekit/leasekit/internal/job"
)

const maxLevel = 20

// readyList is a skip list (Pugh, 1990) of the claimable jobs in queue order:
// jobs come back into the middle, and the head is read far more often than
// anything else. Not safe for concurrent use.
type readyList struct {
	head [maxLevel]*readyNode
	len  int
}

type readyNode struct {
	rank  job.Rank
	entry *entry
	next  []*readyNode
}

func (l *readyList) insert(r job.Rank, e *entry) {
	prev := l.path(r)
	// Each level holds half of the one below.
	level := min(1+bits.TrailingZeros64(rand.Uint64()|1<<(maxLevel-1)), maxLevel)
	n := &readyNode{rank: r, entry: e, next: make([]*readyNode, level)}
	for i := range level {
		n.next[i] = *prev[i]
		*prev[i] = n
	}
	l.len++
}

func (l *readyList) remove(r job.Rank) {
	prev := l.path(r)
	n := *prev[0]
	if n == nil || n.rank != r {
		return
	}
	for i := range n.next {
		*prev[i] = n.next[i]
	}
	l.len--
}

// path returns, per level, the link that leads to the first node at or behind r.
func (l *readyList) path(r job.Rank) (links [maxLevel]**readyNode) {
	row := l.head[:]
	for i := maxLevel - 1; i >= 0; i-- {
		for row[i] != nil && row[i].rank.Before(r) {
			row = row[i].next
		}
		links[i] = &row[i]
	}
	return links
}

// all yields the jobs in queue order.
func (l *readyList) all() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for n := l.head[0]; n != nil; n = n.next[0] {
			if !yield(n.entry) {
				return
			}
		}
	}
}
