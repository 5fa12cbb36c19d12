package simulate

// base is the published race: agent 2 dies halfway through its third job.
func base() *scenario {
	return &scenario{
		name:  "base",
		about: "Agent 2 dies halfway through its third job, without a farewell.",
		modes: Modes(),
		halfway: func(t *trial, a *agent, n *node, r *run, ordinal int) {
			if a.isVictim(ordinal) {
				t.story.strike(r, crashed)
				n.crash()
			}
		},
		shows: func(r *Result, trials []*outcome) []Check {
			if r.Mode == Naive {
				return []Check{everyTrial("without coordination, jobs are finished more than once", trials, func(o *outcome) bool { return o.duplicated > 0 })}
			}
			return nil
		},
	}
}
