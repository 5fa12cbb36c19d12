package simulate

import (
	"context"
)

// failover kills the dispatcher with assignments on their way. They arrive when a
// standby leads.
func failover() *scenario {
	return &scenario{
		name:     "failover",
		about:    "The dispatcher dies with an assignment on its way; a standby takes over when its lease ends, and then the assignment arrives.",
		modes:    []Mode{Dispatch},
		standbys: 1,
		stage:    killDispatcher,
		details: []detail{
			{name: "trials_with_standby", label: "trials in which a standby led", of: func(o *outcome) float64 { return float64(min(1, o.successors)) }, total: true},
			{name: "late_assignments_refused_per_trial", label: "late assignments refused", of: func(o *outcome) float64 { return float64(o.lateAssignmentsRefused()) }},
			{name: "late_assignments_accepted", label: "late assignments accepted", of: func(o *outcome) float64 { return float64(o.lateWrote) }, total: true},
		},
		shows: func(_ *Result, trials []*outcome) []Check {
			accepted := everyTrial("no late assignment of the dead dispatcher was accepted", trials, func(o *outcome) bool { return o.lateWrote == 0 })
			accepted.Vital = true
			return []Check{
				everyTrial("a standby took over", trials, func(o *outcome) bool { return o.successors > 0 }),
				everyTrial("a late assignment arrived and was refused", trials, func(o *outcome) bool { return o.lateAssignmentsRefused() > 0 }),
				accepted,
			}
		},
	}
}

// killDispatcher waits for the planned claim, holds back the assignment that comes
// next, kills the dispatcher that made it, and delivers it when another leads.
func killDispatcher(ctx context.Context, t *trial) error {
	if err := t.story.until(ctx, func() bool { return t.story.truth.claims >= t.plan.doomed }); err != nil {
		return err
	}
	t.story.do(func() { t.trap = true })
	if err := t.story.until(ctx, func() bool { return t.caught != nil }); err != nil {
		return err
	}
	old := t.caught
	if err := old.n.proxy.WaitRequests(ctx, 1); err != nil {
		return err
	}
	leaders := 0
	t.story.do(func() { leaders, t.inFlight = len(t.story.leaders), t.assigning })
	t.story.mark(old.n.name, crashed)
	old.n.proxy.Sever()
	old.n.once.Do(old.n.die)
	if err := t.story.until(ctx, func() bool { return len(t.story.leaders) > leaders }); err != nil {
		return err
	}
	t.story.do(func() { t.witness.lateOf = old.n.name })
	if err := old.n.proxy.Deliver(ctx); err != nil {
		return err
	}
	return t.story.until(ctx, func() bool { return len(t.story.lateLanes) > 0 })
}
