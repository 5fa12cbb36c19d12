package simulate

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// plan is all that chance decides about one trial, in the published race's time. It
// is a pure function of seed, scenario, trial and the numbers of agents and jobs,
// so it is the same in every mode.
type plan struct {
	// lengths are the jobs', in list order.
	lengths []time.Duration
	// gaps[a][k] is agent a's k-th gap between reading "open" and writing "taken".
	gaps [][]time.Duration
	// starts are the agents', after the trial's beginning.
	starts []time.Duration
	// poisoned is the job that kills its worker, in scenario poison.
	poisoned int
	// linger is how much longer than it must a frozen or cut off agent stays away.
	linger time.Duration
	// restart is how long after its death an agent is started again, where it is.
	restart time.Duration
	// doomed is the claim in the middle of which the dispatcher dies, in scenario
	// failover.
	doomed int
}

// Jobs of scenario long: every fifth is two to four leases long.
const (
	longEvery   = 5
	longAtLeast = 2 * lease
	longAtMost  = 4 * lease
)

// newPlan draws a trial's plan. Each kind of chance has a source of its own, so the
// lengths do not depend on how many gaps were drawn.
func newPlan(s Settings, scenario string, trial int) plan {
	source := func(what string) *rand.Rand {
		h := fnv.New64a()
		fmt.Fprintf(h, "%s/%d", what, trial)
		return rand.New(rand.NewPCG(s.Seed, h.Sum64()))
	}
	p := plan{gaps: make([][]time.Duration, s.Agents)}
	lengths, long := source("lengths"), source("long")
	for i := range s.Jobs {
		d := between(lengths, shortest, longest)
		if scenario == "long" && i%longEvery == 0 {
			d = between(long, longAtLeast, longAtMost)
		}
		p.lengths = append(p.lengths, d)
	}
	gaps, starts := source("gaps"), source("starts")
	for a := range s.Agents {
		for range s.Jobs {
			p.gaps[a] = append(p.gaps[a], between(gaps, shortestGap, longestGap))
		}
		p.starts = append(p.starts, between(starts, 0, startWithin))
	}
	faults := source("faults")
	p.poisoned = faults.IntN((s.Jobs + 2) / 3) // early, so that others are left to go on with
	p.linger = between(faults, 0, lease/5)
	p.restart = between(faults, lease/10, lease/5)
	p.doomed = s.Agents + 1 + faults.IntN(max(1, s.Jobs/3))
	return p
}

// between draws uniformly from least to most, both included.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)+1))
}

// jobID names job i so that the order of names is the order of the list.
func jobID(i int) string { return fmt.Sprintf("job-%05d", i+1) }

// agentName names agent i, counted from 1 for people.
func agentName(i int) string { return fmt.Sprintf("agent-%d", i+1) }

// patience bounds a trial: many times what it should take, since the machine may be
// busy, and still an end.
func (p plan) patience(s Settings) time.Duration {
	var work time.Duration
	for _, d := range p.lengths {
		work += d + longestGap
	}
	return s.scaled(work+20*lease) + 30*time.Second
}
