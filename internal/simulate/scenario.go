package simulate

import (
	"context"
	"fmt"
)

// scenario is what happens to the agents of a trial. Each has a file of its own.
type scenario struct {
	name  string
	about string
	// modes are those that the scenario says something about.
	modes []Mode
	// restarts tells that an agent that dies is started again.
	restarts bool
	// standbys is how many dispatchers stand by.
	standbys int
	// halfway is called in the middle of every run, by the agent that works it.
	halfway func(t *trial, a *agent, n *node, r *run, ordinal int)
	// atEnd is called at the end of every run, before its result is handed in.
	atEnd func(t *trial, a *agent, n *node, r *run, ordinal int, e func() effect)
	// stage is what happens to others than agents.
	stage func(ctx context.Context, t *trial) error
	// details are the figures that only this scenario has.
	details []detail
	// shows are the checks that only this scenario has.
	shows func(r *Result, trials []*outcome) []Check
}

// detail is one figure of a scenario's own.
type detail struct {
	name  string // in JSON
	label string // for people
	modes []Mode // nil means all
	of    func(*outcome) float64
	total bool // the sum over trials, not the mean
}

// scenarios lists all scenarios that can be raced; readme is a story made of them.
func scenarios() []*scenario {
	return []*scenario{base(), freeze(), long(), failover(), partition(), poison(), outsideStore()}
}

// Scenarios names all scenarios, in the order in which they are best read.
func Scenarios() []string {
	var names []string
	for _, sc := range scenarios() {
		names = append(names, sc.name)
	}
	return names
}

func scenarioNamed(name string) (*scenario, bool) {
	for _, sc := range scenarios() {
		if sc.name == name {
			return sc, true
		}
	}
	return nil, false
}

// About describes a scenario in a sentence; "" when there is none of that name.
func About(name string) string {
	sc, ok := scenarioNamed(name)
	if !ok {
		return ""
	}
	return sc.about
}

// everyTrial is a check that something holds in every trial.
func everyTrial(claim string, trials []*outcome, holds func(*outcome) bool) Check {
	n := countTrials(trials, holds)
	return Check{Claim: claim, Held: n == len(trials), Found: fmt.Sprintf("in %d of %d trials", n, len(trials))}
}
