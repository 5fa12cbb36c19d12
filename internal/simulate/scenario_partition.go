package simulate

// partition cuts a live agent off from etcd until its job is somebody else's.
func partition() *scenario {
	return &scenario{
		name:  "partition",
		about: "Agent 2 is cut off from etcd halfway through its third job and works on; its job is given to another, and its own result arrives late.",
		modes: []Mode{Claim, Dispatch},
		halfway: func(t *trial, a *agent, n *node, r *run, ordinal int) {
			if !a.isVictim(ordinal) {
				return
			}
			t.story.strike(r, cutOff)
			n.proxy.Pause()
			t.aside.Go(func() {
				t.stayAway(r, t.story.taken)
				t.story.mark(r.agent, healed)
				n.proxy.Heal()
			})
		},
		shows: showsLateRefused,
	}
}
