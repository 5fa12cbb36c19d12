package simulate

// poison has a job that kills whoever works it. Dead agents are started again.
func poison() *scenario {
	return &scenario{
		name:     "poison",
		about:    "One job kills its agent halfway, whoever works it; dead agents are started again. The job is buried after three losses.",
		modes:    Modes(),
		restarts: true,
		halfway: func(t *trial, _ *agent, n *node, r *run, _ int) {
			if r.job == jobID(t.plan.poisoned) {
				t.story.strike(r, crashed)
				n.crash()
			}
		},
		details: []detail{
			{name: "buried_per_trial", label: "buried", modes: []Mode{Claim, Dispatch}, of: func(o *outcome) float64 { return float64(o.buried) }},
		},
		shows: func(r *Result, trials []*outcome) []Check {
			if r.Mode == Naive {
				return nil
			}
			return []Check{everyTrial("the poisoned job was buried and all others finished", trials, func(o *outcome) bool {
				return o.buried == 1 && o.unfinished == 0
			})}
		},
	}
}
