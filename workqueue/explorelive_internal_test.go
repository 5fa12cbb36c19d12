package workqueue

import (
	"errors"
	"strings"
	"testing"
)

// The worlds in which answers are lost and callers leave: whatever happens, things go on.
var (
	// A claim without a Worker whose answer is lost: its process lives, and so does its
	// session.
	claimingAlone = stageSet{
		name: "claims whose callers leave", cast: []string{"w1", "w2", "en"}, setup: []string{"enqueue en x"},
		calls: calls{"w1": {"claim x", "complete x", "reconcile x"}, "w2": {"claim x", "release x"}},
		max:   most{"w1": 3, "w2": 2}, hands: []string{"desert w1"}, faults: spent{lost: 1, denied: 1, hands: 1, expired: 1},
	}
	// A reclaim that counts a loss puts the job back: nobody has it then.
	reclaimingAlone = stageSet{
		name: "reclaims whose callers leave", cast: []string{"w1", "w2", "w3", "en"},
		setup: []string{"enqueue en x", "claim w1 x", "expire w1", "reclaim w2 x", "expire w2"},
		calls: calls{"w3": {"reclaim x", "claim x", "complete x"}}, max: most{"w3": 2}, faults: spent{lost: 1, denied: 1},
	}
	closingDenied = stageSet{
		name: "closings that are denied", cast: []string{"w1", "w2", "op", "en"}, setup: []string{"enqueue en x", "claim w1 x"},
		calls: calls{"w1": {"complete x", "fail x", "checkpoint x"}, "w2": {"claim x", "complete x"}, "op": {"break x"}},
		max:   most{"w1": 2, "w2": 1, "op": 1}, hands: []string{"desert w1"}, faults: spent{lost: 1, denied: 1, hands: 1},
	}
	// A script: its commands are processes on one session, which another keeps alive.
	sharing = stageSet{
		name: "a script", cast: []string{"w1", "w2", "w3", "op", "en"}, setup: []string{"share w2 w1", "share w3 w1", "enqueue en x", "enqueue en next"},
		calls: calls{"w1": {"claim x", "claim next"}, "w2": {"claim x", "complete x"}, "op": {"break x"}},
		max:   most{"w1": 2, "w2": 2, "op": 1}, hands: []string{"depart w1", "desert w2"}, faults: spent{lost: 1, hands: 2},
	}
	// A worker on the session of a script: what the script has claimed is the script's.
	sharingInbox = stageSet{
		name: "a script beside a worker", cast: []string{"w1", "w2", "d1", "en"},
		setup: []string{"share w2 w1", "register w1", "lead d1", "enqueue en x", "enqueue en next"},
		calls: calls{"w1": {"complete x"}, "w2": {"claim next", "complete next"}, "d1": {"assign x w1", "assign next w1"}},
		max:   most{"w1": 1, "w2": 2, "d1": 2}, faults: spent{lost: 1, left: 1},
	}
	// A session that outlives its workers: they come and go, and their registrations are
	// lost, late and repeated.
	registering = stageSet{
		name: "registrations", cast: []string{"w1", "w2", "d1", "en"}, setup: []string{"register w2", "lead d1", "enqueue en x"},
		calls: calls{"w1": {"register", "leave"}, "d1": {"assign x w1", "assign x w2"}, "w2": {"complete x"}},
		max:   most{"w1": 3, "d1": 2, "w2": 1}, faults: spent{lost: 1, denied: 1},
	}
	registeringEnded = stageSet{
		name: "registrations of the ended", cast: []string{"w1", "d1", "en"}, setup: []string{"lead d1", "enqueue en x"},
		calls: calls{"w1": {"register", "leave"}, "d1": {"assign x w1"}},
		max:   most{"w1": 2, "d1": 1}, faults: spent{lost: 1, evicted: 1, expired: 1},
	}
	leavingAssigned = stageSet{
		name: "leaving with an inbox", cast: []string{"w1", "w2", "d1", "en"}, setup: []string{"register w1", "register w2", "lead d1", "enqueue en x"},
		calls: calls{"w1": {"leave", "register", "complete x"}, "d1": {"assign x w1"}, "w2": {"complete x"}},
		max:   most{"w1": 2, "d1": 1, "w2": 1}, faults: spent{lost: 1, denied: 1, crashed: 1},
	}
	// A worker of an older program gives back what it cannot read.
	returning = stageSet{
		name: "jobs of newer programs", cast: []string{"w1", "w2", "d1", "op", "en"},
		setup: []string{"older w1", "register w1", "register w2", "lead d1", "enqueue en x", "assign d1 x w1"},
		calls: calls{"w1": {"return x", "leave"}, "w2": {"complete x"}, "d1": {"assign x w1", "assign x w2"}, "op": {"break x"}},
		max:   most{"w1": 2, "w2": 1, "d1": 1, "op": 1}, faults: spent{lost: 1},
	}
	returning2 = stageSet{
		name: "jobs of newer programs", cast: []string{"w1", "w2", "d1", "en"},
		setup: []string{"older w1", "register w1", "register w2", "lead d1", "enqueue en x", "backup", "assign d1 x w1"},
		calls: calls{"w1": {"return x"}, "d1": {"assign x w1", "assign x w2"}}, max: most{"w1": 1, "d1": 1}, faults: spent{foreign: 1},
	}

	liveWorlds = []stageSet{claimingAlone, reclaimingAlone, closingDenied, sharing, sharingInbox, leavingAssigned, returning}
)

func init() {
	wideWorlds = append(wideWorlds, liveWorlds...)
	hunts = append(hunts,
		hunt{"register", "me create =", registeringEnded},
		hunt{"register", "worker mod =", registering},
		hunt{"returnUnread", "job mod =", returning.calm().onlyRevisions()})
	hunts = append(hunts, restores("returnUnread", "job", returning2)...)
}

// Each keeper is there for a claim that, without it, nobody would end.
func TestExploreMissesEveryKeeper(t *testing.T) {
	for name, c := range map[string]struct {
		lacks keepers
		world stageSet
		finds string
	}{
		"the book of a claim in doubt":     {keepers{noBook: true}, claimingAlone, "nobody works on it"},
		"waiting for what is on its way":   {keepers{hasty: true}, claimingAlone, "nobody works on it"},
		"the nonces, not the session":      {keepers{bySID: true}, sharing, "gives back job"},
		"the book of one who leaves":       {keepers{noFarewell: true}, sharing, "nobody works on it"},
		"the leaving behind a lost answer": {keepers{noRejoin: true}, registering, "no worker serves on it"},
		"the lease of a dead process":      {keepers{noLease: true}, leavingAssigned, "stays registered"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			c.world.lacks = c.lacks
			r := c.world.explore(nil, 100_000)
			if !errors.Is(r.Err, errViolation) || !strings.Contains(r.Err.Error(), c.finds) {
				t.Fatalf("nobody misses it: %v, %v", r, r.Err)
			}
			t.Logf("%v:\n%s", r, c.world.print(r))
		})
	}
}
