package history

import (
	"maps"
	"slices"
)

// effect is one of the caller's own writes.
type effect struct{ key, value string }

// effects: the writes that joined a completion happened at its revision, and at no
// other.
func (c *checker) effects() {
	want, have := map[effect]map[int64]bool{}, map[effect]map[int64]bool{}
	open := map[effect]bool{}
	who := map[effect]*Op{}
	for i := range c.run.Log.Ops {
		op := &c.run.Log.Ops[i]
		if op.Effects == nil {
			continue
		}
		rev := c.completedAt(op)
		for k, v := range op.Effects {
			e := effect{k, v}
			if want[e] == nil {
				want[e], who[e] = map[int64]bool{}, op
			}
			if rev == 0 || !op.happened() {
				continue
			}
			who[e] = op
			switch by, sure := c.completedBy(op); {
			case by:
				want[e][rev] = true
			case !sure:
				open[e] = true
			}
		}
	}
	for rev, events := range c.world.others {
		for _, ev := range events {
			e := effect{ev.Key, string(ev.Value)}
			if want[e] == nil || ev.Delete {
				continue
			}
			if have[e] == nil {
				have[e] = map[int64]bool{}
			}
			have[e][rev] = true
		}
	}
	for e, revs := range want {
		c.report.Stats.Effects++
		if !maps.Equal(revs, have[e]) && !(open[e] && len(have[e]) == 1 && have[e][c.completedAt(who[e])]) {
			op := who[e]
			c.fail("effects", jobKey{op.Queue, op.ID}, 0, "key %s was written at revisions %v, the completions that carry it were applied at %v",
				e.key, slices.Sorted(maps.Keys(have[e])), slices.Sorted(maps.Keys(revs)))
		}
	}
}

// completedBy tells whether it was a call, of those that wanted to complete a claim, that
// did: that is not sure when several of them do not know.
func (c *checker) completedBy(op *Op) (by, sure bool) {
	if op.Result == Applied {
		return true, true
	}
	by, sure = true, true
	for _, other := range c.claims[claimID{op.Queue, op.ID, op.Token}] {
		switch {
		case other == op || !other.mayBe(moveComplete):
		case other.Result == Applied:
			return false, true
		default:
			by, sure = false, false
		}
	}
	return by, sure
}

// completedAt is the revision at which a claim was completed, 0 when it was not.
func (c *checker) completedAt(op *Op) int64 {
	for _, m := range c.world.byJob[jobKey{op.Queue, op.ID}] {
		if m.name == moveComplete && m.from.rev == op.Token {
			return m.rev
		}
	}
	return 0
}
