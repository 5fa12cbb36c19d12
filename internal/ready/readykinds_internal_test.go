package ready

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/job/jobtest"
)

// The lists of kinds against one sorted slice.
func TestReadyKindsKeepTheOrder(t *testing.T) {
	dice := rand.New(rand.NewPCG(3, 4))
	kinds := readyKinds{}
	var model []*entry
	for step := range 3000 {
		if len(model) > 0 && dice.IntN(5) < 2 {
			i := dice.IntN(len(model))
			kinds.remove(model[i])
			model = slices.Delete(model, i, i+1)
		} else {
			r := anyRank(dice, step)
			e := &entry{rank: r, Snapshot: job.Snapshot{Record: &job.Record{ID: r.ID, Kind: string(rune('a' + dice.IntN(6)))}}}
			kinds.insert(e)
			model = append(model, e)
			slices.SortFunc(model, func(a, b *entry) int { return byRank(a.rank, b.rank) })
		}
		kinds.remove(&entry{rank: job.Rank{ID: "no such job"}, Snapshot: job.Snapshot{Record: &job.Record{Kind: "no such kind"}}})
		if step%50 != 0 {
			continue
		}
		some := func(kind string) bool { return kind < "c" }
		for name, knows := range map[string]func(string) bool{"all": nil, "some": some, "none": func(string) bool { return false }} {
			want := slices.DeleteFunc(slices.Clone(model), func(e *entry) bool { return knows != nil && !knows(e.Record.Kind) })
			if got := slices.Collect(kinds.of(knows)); !slices.Equal(got, want) {
				t.Fatalf("step %d, %s: %d jobs, want %d, or in another order", step, name, len(got), len(want))
			}
		}
		for range kinds.of(nil) {
			break
		}
	}
	for _, e := range model {
		kinds.remove(e)
	}
	if len(kinds) != 0 {
		t.Errorf("%d lists of no jobs are kept", len(kinds))
	}
}

// Whoever knows one kind finds its job behind any number of others without a look at
// them.
func BenchmarkPickBehindOtherKinds(b *testing.B) {
	for _, others := range []int{0, 1_000, 100_000} {
		b.Run(fmt.Sprint(others), func(b *testing.B) {
			x := NewIndex(jobtest.Txns(b, "/t/").Space, "q")
			for i := range others {
				x.attach(readyOf("other", i))
			}
			x.attach(readyOf("mine", others))
			ask := Claimant{SID: "s", Knows: func(kind string) bool { return kind == "mine" }}
			for b.Loop() {
				picked, _ := x.Pick(1, ask)
				if len(picked) != 1 {
					b.Fatalf("picked %d jobs, want 1", len(picked))
				}
				x.Settle(picked[0], false)
				x.Leave(picked[0])
				picked[0].entry.again = x.now()
			}
		})
	}
}

func readyOf(kind string, i int) *entry {
	id := fmt.Sprint(kind, i)
	return &entry{
		Snapshot: job.Snapshot{Record: &job.Record{ID: id, Kind: kind}, Where: job.InJobs, Rev: int64(i + 1)},
		rank:     job.Rank{CreateRev: int64(i + 1), ID: id}, hash: hash64(id),
	}
}
