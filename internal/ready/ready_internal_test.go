package ready

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/leasekit/leasekit/internal/job"
)

func anyRank(dice *rand.Rand, step int) job.Rank {
	return job.Rank{Priority: dice.IntN(5) - 2, CreateRev: int64(dice.IntN(40)), Seq: uint64(dice.IntN(3)), ID: fmt.Sprint(step)}
}

func byRank(a, b job.Rank) int {
	if a.Before(b) {
		return -1
	}
	return 1
}

// The skip list against a sorted slice.
func TestReadyListKeepsTheOrder(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	var l readyList
	var model []job.Rank
	for step := range 4000 {
		if len(model) > 0 && dice.IntN(5) < 2 {
			i := dice.IntN(len(model))
			l.remove(model[i])
			model = slices.Delete(model, i, i+1)
		} else {
			r := anyRank(dice, step)
			l.insert(r, &entry{rank: r})
			model = append(model, r)
			slices.SortFunc(model, byRank)
		}
		l.remove(job.Rank{ID: "no such job"})
		if step%50 != 0 {
			continue
		}
		var got []job.Rank
		for e := range l.all() {
			got = append(got, e.rank)
		}
		if !slices.Equal(got, model) || l.len != len(model) {
			t.Fatalf("step %d: got %d jobs (%d), want %d: %v, want %v", step, len(got), l.len, len(model), got, model)
		}
	}
	for range l.all() {
		break
	}
}

// Rendezvous hashing: every process gets its share of names that differ little,
// and a process that leaves moves only its own share.
func TestRendezvousSpreads(t *testing.T) {
	best := func(id string, peers []string) (at string) {
		for _, p := range peers {
			if at == "" || mix(hash64(id)^hash64(p)) > mix(hash64(id)^hash64(at)) {
				at = p
			}
		}
		return at
	}
	peers := []string{"host.0000000000000001", "host.0000000000000002", "host.0000000000000003", "host.0000000000000004"}
	share := map[string]int{}
	const jobs = 4000
	for i := range jobs {
		id := fmt.Sprintf("job-%d", i)
		at := best(id, peers)
		share[at]++
		if less := best(id, peers[:3]); at != peers[3] && less != at {
			t.Fatalf("%s moved from %s to %s when another left", id, at, less)
		}
	}
	for _, p := range peers {
		if n := share[p]; n < jobs/4*8/10 || n > jobs/4*12/10 {
			t.Errorf("%s gets %d of %d", p, n, jobs)
		}
	}
}

func TestStaggerFollowsTheTimeOfAClaim(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: 25 * time.Millisecond, 5 * time.Millisecond: 25 * time.Millisecond,
		40 * time.Millisecond: 120 * time.Millisecond, time.Minute: 500 * time.Millisecond,
	} {
		if got := stagger(took); got != want {
			t.Errorf("a claim takes %v: got %v, want %v", took, got, want)
		}
	}
}
