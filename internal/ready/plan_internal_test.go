package ready

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestPlan(t *testing.T) {
	w := func(sid string, free int, kinds ...string) planWorker {
		return planWorker{sid: sid, free: free, kinds: kinds, hash: hash64(sid)}
	}
	suspicious := func(w planWorker) planWorker { w.suspect = true; return w }
	job := func(kind string) planJob { return planJob{kind: kind, hash: hash64(kind)} }
	suspect := planJob{suspect: true}
	for _, tc := range []struct {
		name    string
		jobs    []planJob
		workers []planWorker
		want    []string // sids; "" is nobody
	}{
		{"nothing to do", nil, []planWorker{w("a", 1)}, []string{}},
		{"nobody to do it", []planJob{job("x")}, nil, []string{""}},
		{"the most room first", []planJob{job("x"), job("x")}, []planWorker{w("a", 1), w("b", 3)}, []string{"b", "b"}},
		{"until the room is used up", []planJob{job("x"), job("x"), job("x")}, []planWorker{w("a", 2)}, []string{"a", "a", ""}},
		{"nobody is given more than there is room", []planJob{job("x")}, []planWorker{w("a", 0), w("b", -2)}, []string{""}},
		{"who knows the kind", []planJob{job("x"), job("y"), job("x")}, []planWorker{w("a", 1, "x"), w("b", 9, "y")}, []string{"a", "b", ""}},
		{"an unknown kind holds up none behind it", []planJob{job("z"), job("x")}, []planWorker{w("a", 1, "x")}, []string{"", "a"}},
		{"one suspect each", []planJob{suspect, suspect, suspect, job("x")}, []planWorker{w("a", 4), w("b", 3)}, []string{"a", "b", "", "a"}},
		{"no second suspect", []planJob{suspect}, []planWorker{suspicious(w("a", 9)), w("b", 1)}, []string{"b"}},
		{"rather not whoever gave it back", []planJob{{avoid: "a"}, {avoid: "a"}}, []planWorker{w("a", 9), w("b", 1)}, []string{"b", "a"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := []string{}
			for _, k := range plan(tc.jobs, slices.Clone(tc.workers)) {
				sid := ""
				if k >= 0 {
					sid = tc.workers[k].sid
				}
				got = append(got, sid)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// Plans of random worlds keep to what a plan promises, whatever the order in which
// the workers come.
func TestPlanKeepsItsPromises(t *testing.T) {
	dice := rand.New(rand.NewPCG(3, 4))
	kinds := []string{"a", "b", "c"}
	for round := range 2000 {
		var jobs []planJob
		for i := range dice.IntN(60) {
			jobs = append(jobs, planJob{kind: kinds[dice.IntN(3)], hash: hash64(fmt.Sprint(round, i)), suspect: dice.IntN(5) == 0})
		}
		var workers []planWorker
		for i := range dice.IntN(12) {
			sid := fmt.Sprint("w", round, i)
			w := planWorker{sid: sid, free: dice.IntN(8), suspect: dice.IntN(4) == 0, hash: hash64(sid)}
			if dice.IntN(2) == 0 {
				w.kinds = kinds[:1+dice.IntN(3)]
			}
			workers = append(workers, w)
		}
		to := plan(jobs, slices.Clone(workers))
		checkPlan(t, jobs, workers, to)
		shuffled := slices.Clone(workers)
		dice.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		for i, k := range plan(jobs, slices.Clone(shuffled)) {
			if (k < 0) != (to[i] < 0) || k >= 0 && shuffled[k].sid != workers[to[i]].sid {
				t.Fatalf("round %d: job %d goes elsewhere when the workers come in another order", round, i)
			}
		}
	}
}

func checkPlan(t *testing.T, jobs []planJob, workers []planWorker, to []int) {
	t.Helper()
	left := slices.Clone(workers)
	for i, k := range to {
		j := jobs[i]
		if k < 0 {
			for _, w := range left {
				if w.takes(j) {
					t.Fatalf("job %d goes to nobody although %s has room", i, w.sid)
				}
			}
			continue
		}
		w := &left[k]
		if w.free <= 0 || !w.knows(j.kind) || j.suspect && w.suspect {
			t.Fatalf("job %d goes to %s, which cannot take it", i, w.sid)
		}
		for _, other := range left {
			if other.takes(j) && other.free > w.free {
				t.Fatalf("job %d goes to %s with room for %d, not to %s with %d", i, w.sid, w.free, other.sid, other.free)
			}
		}
		w.free--
		w.suspect = w.suspect || j.suspect
	}
}

// Equal workers get equal shares.
func TestPlanIsFair(t *testing.T) {
	const workers, jobs = 20, 210
	ws := make([]planWorker, workers)
	for i := range ws {
		ws[i] = planWorker{sid: fmt.Sprint(i), free: 100, hash: hash64(fmt.Sprint(i))}
	}
	js := make([]planJob, jobs)
	for i := range js {
		js[i].hash = hash64(fmt.Sprint("job", i))
	}
	share := make([]int, workers)
	for _, k := range plan(js, ws) {
		share[k]++
	}
	if got := slices.Max(share) - slices.Min(share); got > 1 {
		t.Errorf("shares differ by %d: %v", got, share)
	}
}

func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{20, 2000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			ws := make([]planWorker, n)
			js := make([]planJob, dispatchBatch)
			for i := range js {
				js[i].hash = hash64(fmt.Sprint("job", i))
			}
			for b.Loop() {
				for i := range ws {
					ws[i] = planWorker{free: 16, hash: uint64(i) * 0x9e3779b97f4a7c15}
				}
				plan(js, ws)
			}
		})
	}
}
