package workqueue

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// hunt is a compare that is taken out of a builder's Txns, and the world in which the
// explorer must find out.
type hunt struct {
	builder  string
	compares string // separated by commas
	world    stageSet
}

// hunts covers every compare of every builder. Halves of a guard are hunted where the
// other half is no help: revisions where all nonces are the same, nonces where
// revisions repeat.
var hunts = slices.Concat(
	[]hunt{
		{"enqueue", "job create =,done mod =,dead mod =", enqueuing},
		{"claim", "me create =,config mod =", claiming1},
		{"claim", "job mod =", claiming1.calm().onlyRevisions()},
		{"reclaim", "me create =,config mod =,owner create !=,progress mod =", reclaiming1},
		{"reclaim", "job mod =", reclaiming1.onlyRevisions()},
		{"close", "job mod =", closing1.onlyRevisions()},
		{"close", "next create =,next done mod =,next dead mod =", joining},
		{"close", "leader mod =", joiningTerm.onlyRevisions()},
		{"progress", "progress mod =", lateNotes},
		{"progress", "job mod =", noting1.onlyRevisions()},
		{"intervene", "job mod =", operating.onlyRevisions()},
		{"intervene", "dead mod =", raising.onlyRevisions()},
		{"intervene", "done mod =", reviving.onlyRevisions()},
		{"configure", "config mod =", configuring},
		{"assign", "config mod =,worker mod =", assigning},
		{"assign", "me create =", evicting},
		{"assign", "job mod =,leader mod =", assigning.onlyRevisions()},
		{"assign", "owner create !=,progress mod =", assigningOrphans},
	},
	restores("claim", "job", claiming2), restores("reclaim", "job", reclaiming2), restores("close", "job", closing2),
	restores("progress", "job", noting2), restores("intervene", "job", operating2), restores("intervene", "dead", raising2),
	restores("intervene", "done", reviving2), restores("assign", "job", assigning2), restores("assign", "leader", leading2),
	restores("close", "leader", joiningTerm2),
)

// restores hunts for both compares of a head nonce.
func restores(builder, key string, set stageSet) []hunt {
	return []hunt{
		{builder, key + " value <", set.restored(growingNonces)},
		{builder, key + " value >", set.restored(shrinkingNonces)},
	}
}

// calm loses no answers: where all nonces are the same they resolve nothing.
func (set stageSet) calm() stageSet {
	set.faults.lost = 0
	return set
}

// without leaves a call out: where all nonces are the same, those whose senders look at
// nonces are told nothing of use.
func (set stageSet) without(call string) stageSet {
	all := set.calls
	set.calls = calls{}
	for name, lines := range all {
		set.calls[name] = slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return line == call })
	}
	return set
}

// huntWorlds are the worlds of the hunts, once each.
func huntWorlds() (worlds []stageSet) {
	for _, h := range hunts {
		if !slices.ContainsFunc(worlds, func(w stageSet) bool { return w.name == h.world.name }) {
			worlds = append(worlds, h.world)
		}
	}
	return worlds
}

// Every compare of every Txn is there for a reason that the explorer finds by itself:
// without it, and with all the others, something happens that never may.
func TestExploreMissesEveryCompare(t *testing.T) {
	left := map[string]bool{}
	for _, tc := range txnCases {
		for _, compare := range tc.closes {
			left[tc.builders+" "+compare] = true
		}
	}
	for _, h := range hunts {
		for compare := range strings.SplitSeq(h.compares, ",") {
			delete(left, h.builder+" "+compare)
			t.Run(h.builder+"/"+strings.ReplaceAll(compare, " ", "-"), func(t *testing.T) {
				taken := 0
				r := h.world.explore(func(builder, c string) bool {
					if builder == h.builder && c == compare {
						taken++
						return true
					}
					return false
				}, 100_000)
				if taken == 0 {
					t.Fatal("the world has no such compare")
				}
				if !errors.Is(r.Err, errViolation) {
					t.Fatalf("nobody misses it in %q: %v, %v", h.world.name, r, r.Err)
				}
				t.Logf("%v:\n%s", r, h.world.print(r))
			})
		}
	}
	for compare := range left {
		t.Errorf("%s: no hunt shows what it is for", compare)
	}
}

// Where nothing keeps the network from delivering a request twice, as lanes do, one
// call of enqueue makes two jobs. That lanes keep it from that is searched in coord.
func TestExploreMissesTheLane(t *testing.T) {
	set := enqueuing
	set.faults.twice = 1
	r := set.explore(nil, 100_000)
	if !errors.Is(r.Err, errViolation) || !strings.Contains(r.Err.Error(), "2 times") {
		t.Fatalf("nobody misses the lane: %v, %v", r, r.Err)
	}
	t.Logf("%v:\n%s", r, set.print(r))
}
