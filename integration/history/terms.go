package history

import (
	"cmp"
	"slices"
	"time"
)

// terms: a leader's token is its own and higher than all before, and terms do not
// overlap.
func (c *checker) terms() {
	byName := map[string][]Term{}
	for _, t := range c.run.Log.Terms {
		byName[t.Election] = append(byName[t.Election], t)
		c.report.Stats.Terms++
	}
	for name, terms := range byName {
		slices.SortStableFunc(terms, func(a, b Term) int { return cmp.Compare(a.Token, b.Token) })
		for i, t := range terms {
			if led := c.ledWith(name, t.Token); led == nil || led.owner != t.Session {
				c.fail("I10", jobKey{queue: name}, t.Token, "%s believes that it leads with token %d, and etcd has no such term", t.Session, t.Token)
			}
			if i > 0 {
				c.succession(name, terms[i-1], t)
			}
		}
	}
}

// ledWith finds the term of a token.
func (c *checker) ledWith(name string, token int64) *term {
	for _, t := range c.world.leaders[name] {
		if t.token == token {
			return t
		}
	}
	return nil
}

// succession judges two terms, in the order of their tokens.
func (c *checker) succession(name string, a, b Term) {
	if a.Token == b.Token {
		c.fail("I10", jobKey{queue: name}, a.Token, "%s and %s lead with one token", a.Session, b.Session)
		return
	}
	end := a.End
	if killed, ok := c.kills[a.Proc]; ok && end == Never {
		end = killed
	}
	if c.bounds.Overlap <= 0 || a.Deaf || b.Deaf || end == Never {
		return
	}
	if both := time.Duration(end - b.Start); both > c.bounds.Overlap && !c.slept(a.Proc, span{a.Start, end}) && !c.slept(b.Proc, span{b.Start, end}) {
		c.fail("I10", jobKey{queue: name}, b.Token, "%s led with token %d for %v more while %s led with %d", a.Session, a.Token, both, b.Session, b.Token)
	}
}

// committed: a leader's write is applied in its term, and refused only behind it.
func (c *checker) committed(op *Op) {
	t := c.ledWith(op.Queue, op.Token)
	fail := func(format string, args ...any) {
		c.fail("I10", jobKey{queue: op.Queue}, op.Revision, format, args...)
	}
	switch {
	case op.Result == Applied && (t == nil || op.Revision <= t.token || t.until != 0 && op.Revision > t.until):
		fail("a write under token %d was accepted, which was not the leader's then", op.Token)
	case op.Result == Applied && !c.wrote(op):
		fail("%s was told that its write of %s was applied, and it was not", op.Session, op.Key)
	case op.Result == Refused && t != nil && t.until == 0:
		fail("a write under token %d was refused, and its term stands", op.Token)
	}
}

// wrote tells whether a leader's write is among the events. Without any event outside
// of the root, such keys were not watched.
func (c *checker) wrote(op *Op) bool {
	if op.Key == "" || !c.world.foreign {
		return true
	}
	return slices.ContainsFunc(c.world.others[op.Revision], func(ev Event) bool { return ev.Key == op.Key && !ev.Delete })
}
