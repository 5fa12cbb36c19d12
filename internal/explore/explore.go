// Package explore searches every interleaving of a small world that is a plain value:
// breadth first, so that what it finds is as short as can be, and each state once.
package explore

import (
	"fmt"
	"hash/maphash"
	"runtime/debug"
	"slices"
)

// World is a state from which something can happen. It must not change: a step makes
// another one.
type World[W any] struct {
	// Choices are the lines that could be next. Lines that make no sense are fine.
	Choices func(W) []string
	// Step does what a line says in a copy of the world. Done false leaves the line
	// out; an error is what is looked for, and ends the search.
	Step func(w W, line string) (next W, done bool, err error)
	// Encode appends bytes that are the same for worlds that behave alike.
	Encode func(b []byte, w W) []byte
	// Limit is how many states are visited at most; 0 is no limit.
	Limit int
}

// Report is what a search has seen.
type Report struct {
	// States were visited, by so many Steps, the longest script having Depth lines.
	States, Steps, Depth int
	// Complete tells that nothing is left: every interleaving was tried.
	Complete bool
	// Script leads to Err, when something was found.
	Script []string
	// Err is what was found, or nil.
	Err error
}

// String says how much was seen.
func (r Report) String() string {
	s := fmt.Sprintf("%d states, %d transitions, depth %d", r.States, r.Steps, r.Depth)
	if !r.Complete {
		s += ", not all"
	}
	return s
}

// node is a state that was reached, and from where.
type node[W any] struct {
	world         W
	parent, depth int
	line          string
}

// Run searches from start on.
func (e World[W]) Run(start W) (r Report) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // states are garbage soon, and many
	seed := maphash.MakeSeed()
	buf := e.Encode(nil, start)
	seen := map[uint64]struct{}{maphash.Bytes(seed, buf): {}}
	nodes := []node[W]{{world: start, parent: -1}}
	r.Complete = true
	for i := 0; i < len(nodes); i++ {
		at := nodes[i]
		for _, line := range e.Choices(at.world) {
			next, done, err := e.Step(at.world, line)
			if !done && err == nil {
				continue
			}
			r.Steps++
			if err != nil {
				r.Complete, r.States, r.Depth = false, len(nodes), at.depth+1
				r.Script, r.Err = append(path(nodes, i), line), err
				return r
			}
			buf = e.Encode(buf[:0], next)
			h := maphash.Bytes(seed, buf)
			if _, ok := seen[h]; ok {
				continue
			}
			if e.Limit > 0 && len(nodes) >= e.Limit {
				r.Complete = false
				continue
			}
			seen[h] = struct{}{}
			nodes = append(nodes, node[W]{next, i, at.depth + 1, line})
			r.Depth = max(r.Depth, at.depth+1)
		}
		var none W
		nodes[i].world = none // its line is enough
	}
	r.States = len(nodes)
	return r
}

// path is the script that leads to a node.
func path[W any](nodes []node[W], i int) (lines []string) {
	for ; nodes[i].parent >= 0; i = nodes[i].parent {
		lines = append(lines, nodes[i].line)
	}
	slices.Reverse(lines)
	return lines
}

// Ranks replaces revisions by their ranks, so that worlds that differ only in how
// many revisions went by are the same. Encode a world twice: the first time Rank
// collects, then Sort, and the second time it answers. The zero value is ready.
type Ranks struct {
	revs   []int64
	sorted bool
}

// Reset begins anew.
func (r *Ranks) Reset() { r.revs, r.sorted = r.revs[:0], false }

// Sort ends the collecting.
func (r *Ranks) Sort() {
	slices.Sort(r.revs)
	r.revs, r.sorted = slices.Compact(r.revs), true
}

// Rank is the rank of a revision, once all are collected; that of 0 is -1.
func (r *Ranks) Rank(rev int64) int64 {
	switch {
	case rev == 0:
		return -1
	case !r.sorted:
		r.revs = append(r.revs, rev)
		return 0
	}
	i, _ := slices.BinarySearch(r.revs, rev)
	return int64(i)
}
