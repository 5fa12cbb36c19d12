package lane

import (
	"strings"
	"testing"
	"testing/synctest"
)

// searchLanes runs the real committer under every sequence of choices, depth first,
// and stops at the first run in which somebody is told an untruth.
func searchLanes(t *testing.T, limit int, start func() *laneRun) (runs, steps, depth int, complete bool, found *laneRun, err error) {
	var choices []int
	for runs < limit {
		r := start()
		r.choices = choices
		synctest.Test(t, func(*testing.T) { err = r.run() })
		runs++
		steps += len(r.taken)
		depth = max(depth, len(r.taken))
		if err != nil {
			return runs, steps, depth, false, r, err
		}
		i := len(r.taken) - 1
		made := append(choices, make([]int, len(r.taken))...)[:len(r.taken)]
		for ; i >= 0 && made[i] == r.taken[i]-1; i-- {
		}
		if i < 0 {
			return runs, steps, depth, true, nil, nil
		}
		choices = append([]int{}, made[:i+1]...)
		choices[i]++
	}
	return runs, steps, depth, false, nil, nil
}

// laneWorlds are what may go wrong in a run.
var laneWorlds = []struct {
	name  string
	start func() *laneRun
}{
	{"answers are lost", func() *laneRun { return &laneRun{b: &heldBackend{}, lost: 2, foreign: 1} }},
	{"the job exists", func() *laneRun { return &laneRun{b: &heldBackend{}, lost: 2, foreign: 1, exists: true} }},
	{"the process closes", func() *laneRun { return &laneRun{b: &heldBackend{}, lost: 1, closed: 1, foreign: 1} }},
	{"the lease ends", func() *laneRun { return &laneRun{b: &heldBackend{}, lost: 1, ended: 1} }},
	{"history is compacted", func() *laneRun { return &laneRun{b: &heldBackend{}, lost: 1, compacted: 1, foreign: 1} }},
	{"lean batches", func() *laneRun { return &laneRun{b: &heldBackend{}, lean: true, lost: 2, foreign: 1} }},
	{"etcd denies, or is full", func() *laneRun { return &laneRun{b: &heldBackend{}, lost: 1, denied: 1, foreign: 1} }},
	{"the first of two callers leaves", func() *laneRun {
		return &laneRun{b: &heldBackend{}, lost: 1, twice: &twoWrites{leaves: true, waits: 1}}
	}},
	{"the first of two callers in order leaves", func() *laneRun {
		return &laneRun{b: &heldBackend{}, lost: 1, twice: &twoWrites{leaves: true, waits: 1, inOrder: true}}
	}},
	{"two writes are denied", func() *laneRun {
		return &laneRun{b: &heldBackend{}, lost: 1, denied: 1, twice: &twoWrites{leaves: true, waits: 1}}
	}},
	{"a lane is ended between two writes", func() *laneRun {
		return &laneRun{b: &heldBackend{}, lost: 1, denied: 3, twice: &twoWrites{}}
	}},
	{"a lane ends between two writes", func() *laneRun {
		return &laneRun{b: &heldBackend{}, lost: 1, ended: 1, twice: &twoWrites{leaves: true, waits: 1}}
	}},
	{"a delete and a write", func() *laneRun {
		return &laneRun{b: &heldBackend{}, lost: 1, denied: 2, twice: &twoWrites{deletes: true, waiters: 2}}
	}},
	{"all of it, between two writes", func() *laneRun {
		return &laneRun{b: &heldBackend{}, lost: 2, ended: 1, closed: 1, denied: 2, twice: &twoWrites{leaves: true, waits: 2}}
	}},
	{"all of it", func() *laneRun {
		return &laneRun{b: &heldBackend{}, lost: 2, foreign: 1, ended: 1, compacted: 1, closed: 1}
	}},
}

// Whatever becomes of requests and answers, whoever commits is told the truth, each
// Txn is applied once at most, and what it read is what it read then.
func TestExploreLanes(t *testing.T) {
	limit := 6000
	if raceDetector || testing.Short() {
		limit = 1500
	}
	if *exploreMore {
		limit = 2_000_000
	}
	for _, w := range laneWorlds {
		t.Run(strings.ReplaceAll(w.name, " ", "-"), func(t *testing.T) {
			runs, steps, depth, complete, found, err := searchLanes(t, limit, w.start)
			t.Logf("%d runs of the committer, %d choices, up to %d in one, all: %v", runs, steps, depth, complete)
			if err != nil {
				t.Errorf("%v:\n%s", err, strings.Join(found.script, "\n"))
			}
		})
	}
}

// Without the order of writes, one whose caller has left overtakes a later one.
func TestExploreMissesTheOrderOfWrites(t *testing.T) {
	_, _, _, _, found, err := searchLanes(t, 6000, func() *laneRun {
		return &laneRun{b: &heldBackend{}, lost: 1, twice: &twoWrites{leaves: true, waits: 1, careless: true}}
	})
	if err == nil || !strings.Contains(err.Error(), "overtakes") {
		t.Fatalf("nobody misses it: %v", err)
	}
	t.Logf("%v:\n%s", err, strings.Join(found.script, "\n"))
}

// Without the lane compare a late original, or a repeat, is applied twice.
func TestExploreMissesTheLaneCompare(t *testing.T) {
	_, _, _, _, found, err := searchLanes(t, 6000, func() *laneRun {
		return &laneRun{b: &heldBackend{noLanes: true}, lost: 1}
	})
	if err == nil {
		t.Fatal("nobody misses the lane compare")
	}
	t.Logf("%v:\n%s", err, strings.Join(found.script, "\n"))
}
