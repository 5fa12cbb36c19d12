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
	// Fair tells which lines go on happening by themselves, once nothing goes wrong any
	// more: sooner or later each is done that can be. Nil: nothing does.
	Fair func(line string) bool
	// Rest judges a world in which no fair line can be done: an error is what is looked
	// for too. It is used with Fair.
	Rest func(W) error
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
	fair          []int32 // where its fair lines lead
}

// Run searches from start on. With Fair, what it finds is also a world that comes to rest
// where it must not, or fair lines that never come to an end.
func (e World[W]) Run(start W) Report {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // states are garbage soon, and many
	s := search[W]{World: e, seed: maphash.MakeSeed(), seen: map[uint64]int32{}}
	s.r.Complete = true
	s.reach(start, -1, "")
	for i := 0; i < len(s.nodes) && s.r.Err == nil; i++ {
		s.expand(i)
		var none W
		s.nodes[i].world = none // its line is enough
	}
	s.endless()
	s.r.States = len(s.nodes)
	return s.r
}

// search is a run of a search.
type search[W any] struct {
	World[W]
	seed  maphash.Seed
	buf   []byte
	seen  map[uint64]int32
	nodes []node[W]
	r     Report
}

// reach returns the node of a world, -1 where there are too many.
func (s *search[W]) reach(w W, from int, line string) int32 {
	s.buf = s.Encode(s.buf[:0], w)
	h := maphash.Bytes(s.seed, s.buf)
	if i, ok := s.seen[h]; ok {
		return i
	}
	if s.Limit > 0 && len(s.nodes) >= s.Limit {
		s.r.Complete = false
		return -1
	}
	depth := 0
	if from >= 0 {
		depth = s.nodes[from].depth + 1
	}
	i := int32(len(s.nodes))
	s.seen[h] = i
	s.nodes = append(s.nodes, node[W]{world: w, parent: from, depth: depth, line: line})
	s.r.Depth = max(s.r.Depth, depth)
	return i
}

// expand does each line that can be done in a node.
func (s *search[W]) expand(i int) {
	at := s.nodes[i].world
	rests, left := s.Fair != nil, false
	for _, line := range s.Choices(at) {
		next, done, err := s.Step(at, line)
		if !done && err == nil {
			continue
		}
		s.r.Steps++
		if err != nil {
			s.found(err, append(s.path(i), line))
			return
		}
		fair := s.Fair != nil && s.Fair(line)
		rests = rests && !fair
		n := s.reach(next, i, line)
		switch {
		case n < 0:
			left = left || fair
		case fair:
			s.nodes[i].fair = append(s.nodes[i].fair, n)
		}
	}
	switch {
	case rests:
		if err := s.Rest(at); err != nil {
			s.found(err, s.path(i))
		}
	case left:
		s.finish(i, at)
	}
}

func (s *search[W]) found(err error, script []string) {
	s.r.Complete, s.r.Err, s.r.Script, s.r.Depth = false, err, script, len(script)
}

// path is the script that leads to a node.
func (s *search[W]) path(i int) (lines []string) {
	for ; s.nodes[i].parent >= 0; i = s.nodes[i].parent {
		lines = append(lines, s.nodes[i].line)
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
