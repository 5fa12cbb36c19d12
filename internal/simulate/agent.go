package simulate

import (
	"context"
	"errors"
	"sync"
)

// errDied is what a run ends with whose agent died, or that the trial's end met.
var errDied = errors.New("the agent died")

// agent is one of those who share the jobs, over all its incarnations.
type agent struct {
	trial *trial
	index int
	name  string

	mu   sync.Mutex
	runs int  // begun so far
	met  bool // the fault that was planned for it
}

// begin counts a run and returns its ordinal, from 1.
func (a *agent) begin() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runs++
	return a.runs
}

// work is the handler's part that all modes share: it works one run to its end,
// meeting what the scenario has for it. ctx is what a handler looks at.
func (a *agent) work(ctx context.Context, n *node, r *run, effect func() effect) error {
	t := a.trial
	ordinal := a.begin()
	length := t.s.scaled(t.plan.lengths[t.order[r.job]])
	half := length / 2
	if !n.pause(ctx, half) {
		return ended(ctx)
	}
	if t.scenario.halfway != nil {
		t.scenario.halfway(t, a, n, r, ordinal)
	}
	if r.struck {
		// What it has it hands in, without a look at whether it still may: the worst
		// that an agent can do.
		ctx = context.Background()
	}
	if !n.pause(ctx, length-half) {
		return ended(ctx)
	}
	if t.scenario.atEnd != nil {
		t.scenario.atEnd(t, a, n, r, ordinal, effect)
		if n.crashed() {
			return errDied
		}
	}
	t.story.reach(r)
	return nil
}

// ended is why a run ended early: its context says, or its agent is dead.
func ended(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errDied
}

// meets tells that a run is the one that the fault meets: the first, from an ordinal
// on, that gets to where the fault is. One that a busy machine took away before that
// does not count.
func (a *agent) meets(ordinal, least int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.met || ordinal < least {
		return false
	}
	a.met = true
	return true
}

// isVictim tells that a run is the one that agent 2 meets its fault in.
func (a *agent) isVictim(ordinal int) bool { return a.index == victim && a.meets(ordinal, victimsRun) }
