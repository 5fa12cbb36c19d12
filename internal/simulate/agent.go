package simulate

import (
	"context"
	"errors"
	"sync"
)

// errDied is what a run ends with when its agent died, or the trial is over.
var errDied = errors.New("the agent died")

// agent is one of those who share the jobs, over all its incarnations.
type agent struct {
	trial *trial
	index int
	name  string

	mu   sync.Mutex
	runs int   // begun so far
	node *node // of the incarnation that lives
}

// begin counts a run and returns its ordinal, from 1.
func (a *agent) begin() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runs++
	return a.runs
}

func (a *agent) born(n *node) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.node = n
}

// work is the handler's part that all modes share: it works one run to its end,
// meeting what the scenario has for it. ctx is what a handler looks at.
func (a *agent) work(ctx context.Context, n *node, r *run, effect func() effect) error {
	t := a.trial
	ordinal := a.begin()
	length := t.s.scaled(t.plan.lengths[t.order[r.job]])
	half := length / 2
	if !n.pause(ctx, half) {
		return errDied
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
		return errDied
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

// isVictim tells that a run is the one that the fault meets.
func (a *agent) isVictim(ordinal int) bool { return a.index == victim && ordinal == victimsRun }
