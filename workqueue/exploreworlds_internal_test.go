package workqueue

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/leasekit/leasekit/internal/explore"
)

var exploreMore = flag.Bool("explore.more", false, "search the large worlds too: millions of states, minutes")

// onlyRevisions is the world of a hunt for a compare of revisions: all head nonces
// are the same, as they might be by chance.
func (set stageSet) onlyRevisions() stageSet {
	set.name, set.nonces = set.name+", all nonces the same", sameNonces
	return set
}

// restored is the world of a hunt for a compare of head nonces: etcd is taken back to
// a backup, once, so that revisions repeat.
func (set stageSet) restored(n nonces) stageSet {
	set.name += ", restored, nonces grow"
	if n == shrinkingNonces {
		set.name = strings.TrimSuffix(set.name, "grow") + "shrink"
	}
	set.nonces, set.exact, set.faults.restored = n, true, 1
	return set
}

type (
	calls = map[string][]string
	most  = map[string]int
)

// The worlds in which hunts for missing compares take place. Each is as small as its
// races allow.
var (
	claiming1 = stageSet{
		name: "claims", cast: []string{"w1", "w2", "op", "en"}, setup: []string{"enqueue en x"},
		calls: calls{"w1": {"claim x", "complete x"}, "w2": {"claim x", "release x"}, "op": {"pause"}},
		max:   most{"w1": 2, "w2": 2, "op": 1}, faults: spent{expired: 1, lost: 1},
	}
	reclaiming1 = stageSet{
		name: "reclaims", cast: []string{"w1", "w2", "w3", "op", "en"}, setup: []string{"enqueue en x", "claim w1 x"},
		calls: calls{"w1": {"checkpoint x", "complete x"}, "w2": {"reclaim x"}, "w3": {"reclaim x"}, "op": {"pause"}},
		max:   most{"w1": 1, "w2": 1, "w3": 1, "op": 1}, faults: spent{expired: 2},
	}
	closing1 = stageSet{
		name: "closings", cast: []string{"w1", "w2", "en"}, setup: []string{"enqueue en x", "claim w1 x"},
		calls: calls{"w1": {"complete x", "fail x", "snooze x", "quit x"}, "w2": {"reclaim x", "complete x", "fail x for-good"}},
		max:   most{"w1": 1, "w2": 2}, faults: spent{expired: 1},
	}
	noting1 = stageSet{
		name: "checkpoints", cast: []string{"w1", "w2", "en"}, setup: []string{"enqueue en x", "claim w1 x"},
		calls: calls{"w1": {"checkpoint x"}, "w2": {"reclaim x"}},
		max:   most{"w1": 1, "w2": 1}, faults: spent{expired: 1},
	}
	lateNotes = stageSet{
		name: "late checkpoints", cast: noting1.cast, setup: noting1.setup, calls: noting1.calls,
		max: most{"w1": 3, "w2": 1}, faults: spent{expired: 1, lost: 2},
	}
	joining = stageSet{
		name: "the next job", cast: []string{"w1", "w2", "en"}, setup: []string{"enqueue en x", "claim w1 x"},
		calls: calls{"w1": {"complete x with next"}, "w2": {"claim next", "complete next", "fail next for-good"}, "en": {"enqueue next"}},
		max:   most{"w1": 1, "w2": 2, "en": 1},
	}
	joiningTerm = stageSet{
		name: "completions under a term", cast: []string{"w1", "d1", "d2", "en"}, setup: []string{"enqueue en x", "claim w1 x", "lead d1"},
		calls: calls{"w1": {"complete x under d1"}}, max: most{"w1": 1}, faults: spent{led: 1},
	}
	joiningTerm2 = stageSet{
		name: "completions under a term", cast: []string{"w1", "d1", "d2", "en"}, setup: []string{"enqueue en x", "claim w1 x", "backup"},
		calls: calls{"w1": {"complete x under d1"}}, max: most{"w1": 1}, faults: spent{led: 2, foreign: 1},
	}
	enqueuing = stageSet{
		name: "enqueues", cast: []string{"w1", "en", "en2"},
		calls: calls{"w1": {"claim x", "complete x", "fail x for-good"}, "en": {"enqueue x", "enqueue x over"}, "en2": {"enqueue x", "enqueue x over"}},
		max:   most{"w1": 2, "en": 2, "en2": 1}, faults: spent{lost: 1, forgotten: 1},
	}
	operating = stageSet{
		name: "interventions", cast: []string{"w1", "w2", "op", "op2", "en"}, setup: []string{"enqueue en x", "claim w1 x"},
		calls: calls{"w1": {"release x", "complete x"}, "w2": {"claim x"}, "op": {"break x", "cancel x", "bury x"}, "op2": {"requeue x", "break x"}},
		max:   most{"w1": 1, "w2": 1, "op": 1, "op2": 1},
	}
	raising = stageSet{
		name: "requeues of the dead", cast: []string{"w1", "op", "op2", "en"}, setup: []string{"enqueue en x", "claim w1 x", "fail w1 x for-good"},
		calls: calls{"w1": {"claim x", "fail x for-good"}, "op": {"requeue x"}, "op2": {"requeue x"}, "en": {"enqueue x over"}},
		max:   most{"w1": 2, "op": 1, "op2": 1, "en": 1},
	}
	reviving = stageSet{
		name: "requeues of the done", cast: []string{"op", "op2", "op3", "en"}, setup: []string{"enqueue en x", "cancel op x"},
		calls: calls{"op": {"requeue x"}, "op2": {"requeue x"}, "op3": {"cancel x"}, "en": {"enqueue x over"}},
		max:   most{"op": 1, "op2": 1, "op3": 1, "en": 1},
	}
	configuring = stageSet{
		name: "the config", cast: []string{"op", "op2", "op3"},
		calls: calls{"op": {"pause", "resume"}, "op2": {"dispatch"}, "op3": {"pause"}}, max: most{"op": 2, "op2": 1, "op3": 1},
		faults: spent{lost: 1},
	}
	assigning = stageSet{
		name: "assignments", cast: []string{"w1", "w2", "d1", "d2", "op", "en"},
		setup: []string{"register w1", "register w2", "lead d1", "enqueue en x"},
		calls: calls{"w1": {"complete x"}, "w2": {"claim x"}, "d1": {"assign x w1"}, "d2": {"assign x w2"}, "op": {"pause"}},
		max:   most{"w1": 1, "w2": 1, "d1": 1, "d2": 1, "op": 1}, faults: spent{led: 1, left: 1, expired: 1},
	}
	// The registration goes with the session's lease, so only a key that was deleted by
	// hand leaves it behind.
	evicting = stageSet{
		name: "evictions", cast: []string{"w1", "w2", "d1", "en"}, setup: []string{"register w1", "lead d1", "enqueue en x"},
		calls: calls{"w2": {"claim x", "reclaim x"}, "d1": {"assign x w1"}, "w1": {"complete x"}},
		max:   most{"w1": 1, "w2": 2, "d1": 1}, faults: spent{evicted: 1, lost: 1},
	}
	assigningOrphans = stageSet{
		name: "assignments of orphans", cast: []string{"w1", "w2", "d1", "d2", "en"},
		setup: []string{"register w1", "register w2", "lead d1", "enqueue en x", "assign d1 x w1", "take w1 x"},
		calls: calls{"w1": {"checkpoint x", "complete x"}, "d1": {"assign x w2"}, "d2": {"assign x w2"}},
		max:   most{"w1": 2, "d1": 1, "d2": 1}, faults: spent{led: 1, expired: 1},
	}

	// In these etcd is taken back.
	claiming2 = stageSet{
		name: "claims", cast: []string{"w1", "w2", "en"}, setup: []string{"enqueue en x", "backup", "claim w2 x", "release w2 x"},
		calls: calls{"w1": {"claim x"}, "w2": {"claim x"}}, max: most{"w1": 1, "w2": 1}, faults: spent{foreign: 1},
	}
	reclaiming2 = stageSet{
		name: "reclaims", cast: []string{"w1", "w2", "w3", "en"}, setup: []string{"enqueue en x", "backup", "claim w1 x"},
		calls: calls{"w2": {"reclaim x"}, "w3": {"claim x"}}, max: most{"w2": 1, "w3": 1}, faults: spent{expired: 2},
	}
	closing2 = stageSet{
		name: "closings", cast: []string{"w1", "w2", "en"}, setup: []string{"enqueue en x", "backup", "claim w1 x"},
		calls: calls{"w1": {"complete x", "release x"}, "w2": {"claim x", "complete x"}}, max: most{"w1": 1, "w2": 2}, faults: spent{foreign: 1},
	}
	noting2 = stageSet{
		name: "checkpoints", cast: closing2.cast, setup: closing2.setup,
		calls: calls{"w1": {"checkpoint x"}, "w2": {"claim x", "complete x"}}, max: most{"w1": 1, "w2": 2}, faults: spent{foreign: 1},
	}
	operating2 = stageSet{
		name: "interventions", cast: []string{"w1", "w2", "op", "en"}, setup: []string{"enqueue en x", "backup", "claim w1 x"},
		calls: calls{"op": {"break x", "cancel x"}, "w2": {"claim x"}}, max: most{"op": 1, "w2": 1}, faults: spent{foreign: 1},
	}
	raising2 = stageSet{
		name: "requeues of the dead", cast: []string{"op", "op2", "op3", "en"}, setup: []string{"enqueue en x", "backup", "bury op x"},
		calls: calls{"op2": {"requeue x"}, "op3": {"bury x"}}, max: most{"op2": 1, "op3": 1}, faults: spent{foreign: 1},
	}
	reviving2 = stageSet{
		name: "requeues of the done", cast: raising2.cast, setup: []string{"enqueue en x", "backup", "cancel op x"},
		calls: calls{"op2": {"requeue x"}, "op3": {"cancel x"}}, max: most{"op2": 1, "op3": 1}, faults: spent{foreign: 1},
	}
	assigning2 = stageSet{
		name: "assignments", cast: []string{"w1", "w2", "d1", "en"},
		setup: []string{"register w1", "lead d1", "enqueue en x", "backup", "claim w2 x", "release w2 x"},
		calls: calls{"d1": {"assign x w1"}, "w2": {"claim x"}}, max: most{"d1": 1, "w2": 1}, faults: spent{foreign: 1},
	}
	leading2 = stageSet{
		name: "terms", cast: []string{"w1", "d1", "d2", "en"}, setup: []string{"register w1", "enqueue en x", "backup"},
		calls: calls{"d1": {"assign x w1"}, "d2": {"assign x w1"}}, max: most{"d1": 1, "d2": 1}, faults: spent{led: 2, foreign: 1},
	}
)

// wideWorlds are for breadth: no hunt, as many ways to interfere as there is time for.
var wideWorlds = []stageSet{
	{
		name: "two workers", cast: []string{"w1", "w2", "en"}, setup: []string{"enqueue en x"},
		calls: calls{
			"w1": {"claim x", "reclaim x", "complete x", "fail x", "release x", "checkpoint x", "reconcile x"},
			"w2": {"claim x", "reclaim x", "complete x", "fail x", "checkpoint x"},
		},
		max: most{"w1": 3, "w2": 3}, faults: spent{lost: 1, expired: 1, crashed: 1}, params: Params{MaxAttempts: 2, MaxLosses: 2},
	},
	{
		name: "two workers and two operators", cast: []string{"w1", "w2", "op", "op2", "en"}, setup: []string{"enqueue en x", "claim w1 x"},
		calls: calls{
			"w1": {"complete x", "fail x for-good", "checkpoint x"}, "w2": {"claim x", "reclaim x", "complete x"},
			"op": {"cancel x", "requeue x", "break x"}, "op2": {"requeue x", "bury x", "pause"}, "en": {"enqueue x over"},
		},
		max: most{"w1": 2, "w2": 2, "op": 1, "op2": 1, "en": 1}, faults: spent{lost: 1, expired: 1}, params: Params{MaxLosses: 1},
	},
	{
		name: "two dispatchers", cast: []string{"w1", "w2", "d1", "d2", "en"},
		setup: []string{"register w1", "register w2", "lead d1", "enqueue en x"},
		calls: calls{"w1": {"complete x", "release x"}, "w2": {"complete x"}, "d1": {"assign x w1", "assign x w2"}, "d2": {"assign x w2"}},
		max:   most{"w1": 1, "w2": 1, "d1": 2, "d2": 1}, faults: spent{led: 2, left: 1, expired: 1, lost: 1, crashed: 1}, params: Params{MaxLosses: 2},
	},
}

// larger has room for more of everything: see make explore.
func (set stageSet) larger() stageSet {
	set.name += ", large"
	most := most{}
	for name, n := range set.max {
		most[name] = n + 1
	}
	set.max = most
	set.faults.expired++
	if set.faults.lost > 0 {
		set.faults.lost++
	}
	return set
}

// Every interleaving of small worlds: nothing happens that never may.
func TestExplore(t *testing.T) {
	limit, worlds := 33_000, wideWorlds
	if raceDetector || testing.Short() {
		limit = 2_500
	}
	if *exploreMore {
		limit = 3_000_000
		for _, set := range wideWorlds {
			worlds = append(worlds, set.larger())
		}
	}
	states, steps := 0, 0
	for _, set := range append(huntWorlds(), worlds...) {
		t.Run(strings.NewReplacer(" ", "-", ",", "").Replace(set.name), func(t *testing.T) {
			r := set.explore(nil, limit)
			t.Log(r)
			if r.Err != nil {
				t.Errorf("found:\n%s", set.print(r))
			}
			states, steps = states+r.States, steps+r.Steps
		})
	}
	t.Logf("%d states, %d transitions in all", states, steps)
}

// print is what was found, as a scenario.
func (set stageSet) print(r explore.Report) string {
	cast := strings.Join(set.cast, " ")
	for name, n := range map[string]int{"max-losses": set.params.MaxLosses, "max-attempts": set.params.MaxAttempts} {
		if n > 0 {
			cast += fmt.Sprintf(" %s=%d", name, n)
		}
	}
	lines := append(set.setup[:len(set.setup):len(set.setup)], "# and then")
	return "play " + cast + "\n----\n\nrun\n" + strings.Join(append(lines, r.Script...), "\n") + "\n----\n" + r.Err.Error()
}
