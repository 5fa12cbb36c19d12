package simulate

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// plan is all that chance decides about one trial, in the published race's time. It
// is a pure function of seed, scenario, trial, the numbers of agents and jobs, and the
// durations that are raced, so it is the same in every mode.
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

// longEvery is which jobs of scenario long are two to four leases long.
const longEvery = 5

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
		d := s.Job.draw(lengths)
		if scenario == "long" && i%longEvery == 0 {
			d = Range{2 * s.Lease, 4 * s.Lease}.draw(long)
		}
		p.lengths = append(p.lengths, d)
	}
	gaps, starts := source("gaps"), source("starts")
	for a := range s.Agents {
		for range s.Jobs {
			p.gaps[a] = append(p.gaps[a], s.Gap.draw(gaps))
		}
		p.starts = append(p.starts, Range{0, s.Jitter}.draw(starts))
	}
	faults := source("faults")
	p.poisoned = faults.IntN((s.Jobs + 2) / 3) // early, so that others are left to go on with
	p.linger = Range{0, s.Lease / 5}.draw(faults)
	p.restart = Range{s.Lease / 10, s.Lease / 5}.draw(faults)
	p.doomed = s.Agents + 1 + faults.IntN(max(1, s.Jobs/3))
	return p
}

// draw draws one duration.
func (r Range) draw(from *rand.Rand) time.Duration {
	return r.Least + time.Duration(from.Int64N(int64(r.Most-r.Least)+1))
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
		work += d + s.Gap.Most
	}
	return s.scaled(work+s.Jitter+20*s.Lease) + 30*time.Second
}
