package simulate

// freeze stops agent 2 past its lease, wakes it, and lets it hand in its result.
func freeze() *scenario {
	return &scenario{
		name:  "freeze",
		about: "Agent 2 freezes halfway through its third job, past its lease, then wakes and saves its result.",
		modes: Modes(),
		halfway: func(t *trial, a *agent, n *node, r *run, ordinal int) {
			if a.isVictim(ordinal) {
				t.freeze(n, r, t.story.taken)
			}
		},
		shows: showsLateRefused,
	}
}

// freeze holds an agent, in the goroutine of its handler, until somebody else has
// got so far with its job, and a while longer, and lets it go on.
func (t *trial) freeze(n *node, r *run, until func(*run) bool) {
	t.story.strike(r, frozen)
	n.freeze()
	t.stayAway(r, until)
	t.story.mark(r.agent, woken)
	n.wake()
}

// stayAway blocks until somebody else has got so far with the run's job, or for two
// leases where nobody takes anything over, and for the planned while longer; or until
// the trial is over.
func (t *trial) stayAway(r *run, until func(*run) bool) {
	if t.mode == Naive {
		sleep(t.life, t.s.scaled(2*t.s.Lease))
	} else if t.story.until(t.life, func() bool { return until(r) }) != nil {
		return
	}
	sleep(t.life, t.s.scaled(t.plan.linger))
}

// showsLateRefused checks that the result of whoever was away came late, and was
// turned away.
func showsLateRefused(r *Result, trials []*outcome) []Check {
	if r.Mode == Naive {
		return nil
	}
	return []Check{everyTrial("at least one late result was refused", trials, func(o *outcome) bool { return o.lateRefused > 0 })}
}
