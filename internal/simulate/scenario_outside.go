package simulate

import "fmt"

// deadAfterEffect is the run of agent 3 that has its effect and never saves.
const deadAfterEffect = 2

// outsideStore gives every job an effect in a store outside etcd. Agent 2 freezes
// before its effect, and agent 3 dies behind one.
func outsideStore() *scenario {
	return &scenario{
		name: "outside",
		about: "Every job has an effect in a store outside etcd, which keeps the highest token per job and the idempotency keys. " +
			"Agent 2 freezes before an effect and comes late with it; agent 3 dies between an effect and its save.",
		modes: Modes(),
		halfway: func(t *trial, a *agent, n *node, r *run, ordinal int) {
			if a.isVictim(ordinal) {
				// The store knows no token before it was shown one: the successor first.
				t.freeze(n, r, t.story.redone)
			}
		},
		atEnd: func(t *trial, a *agent, n *node, r *run, ordinal int, e func() effect) {
			t.outside.apply(e())
			// Of two agents, somebody has to be left.
			if a.index == victim+1 && a.meets(ordinal, deadAfterEffect) {
				t.story.strike(r, crashed)
				n.crash()
			}
		},
		details: []detail{
			{name: "effects_doubled", label: "effects doubled", of: func(o *outcome) float64 { return float64(o.effects.doubled) }, total: true},
			{name: "effects_missing", label: "effects missing", of: func(o *outcome) float64 { return float64(o.effects.missing) }, total: true},
			{name: "lower_tokens_refused_per_trial", label: "lower tokens refused", of: func(o *outcome) float64 { return float64(o.effects.lower) }},
			{name: "repeated_effects_ignored_per_trial", label: "repeated effects ignored", of: func(o *outcome) float64 { return float64(o.effects.again) }},
		},
		shows: func(r *Result, trials []*outcome) []Check {
			if r.Mode == Naive {
				return nil
			}
			bad := 0
			for _, o := range trials {
				bad += o.effects.doubled + o.effects.missing
			}
			return append(showsLateRefused(r, trials),
				Check{Claim: "every job's effect happened exactly once", Held: bad == 0, Found: fmt.Sprintf("%d doubled or missing", bad), Vital: true},
				everyTrial("the store refused a lower token", trials, func(o *outcome) bool { return o.effects.lower > 0 }))
		},
	}
}
