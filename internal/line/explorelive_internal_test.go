package line

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// The worlds in which answers are lost and etcd denies: whatever happens, the line moves
// on, and each caller's answer is true.
var (
	// A hand-over whose answer is lost, and an operator who gives the lock to another.
	lockDoubt = lockSet{
		name: "a hand-over in doubt", permits: 1, cast: []string{"s1", "s2", "s3", "op"}, setup: slices.Concat(holding, waits("s2"), waits("s3")),
		calls: lockCalls{"s1": {"release", "transfer s3"}, "s2": {"quit", "release"}, "op": {"force s1"}},
		max:   map[string]int{"s1": 1, "s2": 1, "op": 1}, faults: lockFaults{lost: 2, denied: 1},
	}
	// A release to nobody, beside those who come and go.
	lockReleased = lockSet{
		name: "a release in doubt", permits: 1, cast: []string{"s1", "s2", "op"}, setup: holding,
		calls: lockCalls{"s1": {"release", "commit"}, "s2": {"acquire 0", "quit"}, "op": {"force s1"}},
		max:   map[string]int{"s1": 2, "s2": 2, "op": 1}, faults: lockFaults{lost: 2, denied: 2},
	}
	// An acquisition whose answer is lost, and that is handed the lock when it gives up.
	lockAcquired = lockSet{
		name: "an acquisition in doubt", permits: 1, cast: []string{"s1", "s2", "s3"}, setup: slices.Concat(holding, waits("s3")),
		calls: lockCalls{"s1": {"release", "transfer s2"}, "s2": {"acquire 0", "next", "quit"}}, max: map[string]int{"s1": 1, "s2": 3},
		faults: lockFaults{lost: 2, denied: 1},
	}
	permitDoubt = lockSet{
		name: "permits in doubt", permits: 2, cast: []string{"s1", "s2", "s3"}, setup: twoPermits.setup,
		calls: lockCalls{"s1": {"release"}, "s2": {"release"}, "s3": {"acquire 0", "quit"}}, max: map[string]int{"s1": 1, "s2": 1, "s3": 2},
		faults: lockFaults{lost: 1, denied: 1, expired: 1},
	}
	lockLive = []lockSet{lockDoubt, lockReleased, lockAcquired, permitDoubt}
)

func init() { lockSets = append(lockSets, lockLive...) }

// Each keeper is there for a lock that, without it, nobody would have, or an answer that
// would not be true.
func TestExploreMissesEveryKeeperOfClaims(t *testing.T) {
	for name, c := range map[string]struct {
		lacks lockKeepers
		world lockSet
		finds string
	}{
		"the book of an acquisition in doubt":  {lockKeepers{noBook: true}, lockAcquired, "and nobody"},
		"waiting for what is on its way":       {lockKeepers{hasty: true}, lockAcquired, "and nobody"},
		"reading what followed the claim":      {lockKeepers{unread: true}, lockDoubt, "was applied, and it was not"},
		"the next try of one that lost a race": {lockKeepers{noHandOff: true}, lockDoubt, "has no end"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			c.world.lacks = c.lacks
			r := c.world.explore(nil, 100_000)
			if !errors.Is(r.Err, errUntrue) || !strings.Contains(r.Err.Error(), c.finds) {
				t.Fatalf("nobody misses it: %v, %v", r, r.Err)
			}
			t.Logf("%v:\n%s", r, c.world.print(r))
		})
	}
}
