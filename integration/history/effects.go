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
			if rev != 0 && op.happened() {
				want[e][rev], who[e] = true, op
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
		if !maps.Equal(revs, have[e]) {
			op := who[e]
			c.fail("effects", jobKey{op.Queue, op.ID}, 0, "key %s was written at revisions %v, the completions that carry it were applied at %v",
				e.key, slices.Sorted(maps.Keys(have[e])), slices.Sorted(maps.Keys(revs)))
		}
	}
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
