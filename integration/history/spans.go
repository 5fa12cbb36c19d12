package history

import (
	"cmp"
	"slices"
	"time"
)

// orphans: a claim whose owner is gone does not stand for long.
func (c *checker) orphans() {
	end := c.world.end
	if c.run.Final != nil {
		end = max(end, c.run.Final.At)
	}
	for key, moves := range c.world.byJob {
		for i, m := range moves {
			if !m.to.claimed() {
				continue
			}
			until := end
			if i+1 < len(moves) {
				until = moves[i+1].seen
			}
			gone, ok := c.world.gone[m.to.rec.Owner]
			if !ok || gone >= until {
				continue
			}
			excused := append(slices.Clone(c.outages), c.world.pauses[key.queue]...)
			stood := time.Duration(uncovered(span{gone, until}, excused))
			c.report.Stats.SlowestReclaim = max(c.report.Stats.SlowestReclaim, stood)
			if c.bounds.Reclaim > 0 && stood > c.bounds.Reclaim {
				c.fail("I4", key, m.rev, "its owner %s was gone for %v and the claim stood, the bound is %v", m.to.rec.Owner, stood, c.bounds.Reclaim)
			}
		}
	}
}

// uncovered is how much of a span no other one covers.
func uncovered(s span, others []span) int64 {
	slices.SortFunc(others, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	left := s.to - s.from
	from := s.from
	for _, o := range others {
		begin, end := max(o.from, from), min(o.to, s.to)
		if end > begin {
			left -= end - begin
			from = end
		}
	}
	return left
}

// works: handlers of two claims of one job do not run at once.
func (c *checker) works() {
	type incarnation struct {
		jobKey
		born string
	}
	runs := map[incarnation][]Work{}
	for _, w := range c.run.Log.Works { // in the order of their starts
		key := incarnation{jobKey{w.Queue, w.ID}, w.Born}
		runs[key] = append(runs[key], w)
		c.report.Stats.Works++
	}
	for key, ws := range runs {
		for i, a := range ws {
			for _, b := range ws[i+1:] {
				if a.Token == b.Token {
					c.fail("I6", key.jobKey, a.Token, "one claim was worked twice, by %s and %s", a.Proc, b.Proc)
					continue
				}
				c.overlap(key.jobKey, a, b)
			}
		}
	}
}

// overlap judges two handlers of one job, a the first to start.
func (c *checker) overlap(key jobKey, a, b Work) {
	for _, w := range []*Work{&a, &b} {
		if killed, ok := c.kills[w.Proc]; ok && w.End == Never {
			w.End = killed
		}
	}
	both := span{b.Start, min(a.End, b.End)}
	switch {
	case c.bounds.Overlap <= 0, a.Deaf, b.Deaf, both.to == Never:
		return
	case time.Duration(both.to-both.from) <= c.bounds.Overlap:
		return
	case c.slept(a.Proc, span{a.Start, both.to}), c.slept(b.Proc, both):
		return
	case c.takenBySomebody(key, a.Token), c.takenBySomebody(key, b.Token):
		return
	}
	c.fail("I6", key, b.Token, "handlers of token %d (%s) and %d (%s) ran at once for %v",
		a.Token, a.Session, b.Token, b.Session, time.Duration(both.to-both.from))
}

// takenBySomebody tells whether an operator took the claim away: the owner hears of
// that by watch, whenever that may be.
func (c *checker) takenBySomebody(key jobKey, token int64) bool {
	for _, m := range c.world.byJob[key] {
		if m.from.claimed() && m.from.rev == token {
			return m.entry().Actor != "" || m.name == moveBreak || m.name == moveCancel
		}
	}
	return false
}

// slept tells whether a process was paused at any time of a span.
func (c *checker) slept(proc string, s span) bool {
	return slices.ContainsFunc(c.pauses[proc], func(p span) bool { return p.from < s.to && s.from < p.to })
}

// returns: calls return by their context.
func (c *checker) returns() {
	for i := range c.run.Log.Ops {
		op := &c.run.Log.Ops[i]
		if op.Call == 0 {
			continue // it is known only since it returned
		}
		_, killed := c.kills[op.Proc]
		late := time.Duration(op.Return - op.Deadline)
		switch {
		case op.Return == Never && !killed && !c.run.Partial:
			c.fail("I7", jobKey{op.Queue, op.ID}, 0, "%s of %s %s never returned", op.Verb, op.Proc, op.Client)
		case op.Return == Never, op.Deadline == 0, c.bounds.Return <= 0, late <= c.bounds.Return:
		case !c.slept(op.Proc, span{op.Call, op.Return}):
			c.fail("I7", jobKey{op.Queue, op.ID}, 0, "%s of %s %s returned %v after the end of its context", op.Verb, op.Proc, op.Client, late)
		}
	}
}
