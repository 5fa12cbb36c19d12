package workqueue

import (
	"flag"
	"strings"
	"testing"
)

var exploreMore = flag.Bool("explore.more", false, "search the large worlds too: minutes")

// smallWorlds are searched in every run of the tests.
var smallWorlds = []stageSet{
	{
		name: "two workers and a job", cast: []string{"w1", "w2"}, setup: nil,
		calls: map[string][]string{
			"w1": {"claim x", "reclaim x", "complete x", "fail x", "release x", "checkpoint x", "reconcile x"},
			"w2": {"claim x", "reclaim x", "complete x", "fail x", "checkpoint x"},
		},
		max: map[string]int{"w1": 4, "w2": 3}, faults: spent{lost: 1, expired: 1, crashed: 1},
		params: Params{MaxAttempts: 2, MaxLosses: 2},
	},
}

func init() {
	smallWorlds[0].cast, smallWorlds[0].setup = []string{"w1", "w2", "en"}, []string{"enqueue en x"}
}

// Every interleaving of small worlds: nothing happens that never may.
func TestExplore(t *testing.T) {
	for _, set := range smallWorlds {
		t.Run(strings.ReplaceAll(set.name, " ", "-"), func(t *testing.T) {
			r := explore(set, nil, 2_000_000)
			t.Log(r)
			if r.err != nil {
				t.Errorf("%v:\n%s", r.err, strings.Join(r.script, "\n"))
			}
		})
	}
}
