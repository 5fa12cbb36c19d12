package ready

import (
	"container/heap"
	"iter"
)

// readyKinds is the claimable jobs by kind, so that whoever knows few kinds does not
// walk past all the others. Not safe for concurrent use.
type readyKinds map[string]*readyList

func (k readyKinds) insert(e *entry) {
	l := k[e.Record.Kind]
	if l == nil {
		l = &readyList{}
		k[e.Record.Kind] = l
	}
	l.insert(e.rank, e)
}

func (k readyKinds) remove(e *entry) {
	l := k[e.Record.Kind]
	if l == nil {
		return
	}
	l.remove(e.rank)
	if l.len == 0 {
		delete(k, e.Record.Kind)
	}
}

// of yields the jobs of the kinds that are known, in queue order; nil knows all. The
// jobs must not change meanwhile.
func (k readyKinds) of(knows func(kind string) bool) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		var heads readyHeads
		for kind, l := range k {
			if knows == nil || knows(kind) {
				heads = append(heads, l.head[0])
			}
		}
		heap.Init(&heads)
		for len(heads) > 0 {
			n := heads[0]
			if !yield(n.entry) {
				return
			}
			if heads[0] = n.next[0]; heads[0] != nil {
				heap.Fix(&heads, 0)
			} else {
				heap.Pop(&heads)
			}
		}
	}
}

// readyHeads is a heap of the first jobs of several lists.
type readyHeads []*readyNode

func (h readyHeads) Len() int           { return len(h) }
func (h readyHeads) Less(i, j int) bool { return h[i].rank.Before(h[j].rank) }
func (h readyHeads) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *readyHeads) Push(v any)        { *h = append(*h, v.(*readyNode)) }

func (h *readyHeads) Pop() any {
	last := len(*h) - 1
	n := (*h)[last]
	*h = (*h)[:last]
	return n
}
