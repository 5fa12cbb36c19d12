package simulate

import (
	"context"
	"fmt"
	"time"
)

// What a claim is measured on while nothing else runs.
const (
	aloneJobs   = 30
	aloneLength = 10 * time.Millisecond // of a job, in real time
)

// alone measures what a claim or an assignment takes, in milliseconds per job, with one
// agent and no other trial. In the race the trials share the machine, so a claim there
// waits for the machine more than for etcd.
func (sim *simulation) alone(ctx context.Context, m Mode) (*float64, error) {
	s := sim.s
	length := max(1, time.Duration(float64(aloneLength)/s.TimeScale))
	s.Agents, s.Jobs, s.Job, s.Jitter = 1, aloneJobs, Range{length, length}, 0
	quiet := &simulation{s: s, endpoint: sim.endpoint, root: sim.root, admin: sim.admin}
	t, err := quiet.newTrial(&scenario{name: "alone", modes: Modes()}, m, 0)
	if err != nil {
		return nil, err
	}
	o, err := t.race(ctx)
	if err != nil {
		return nil, fmt.Errorf("measure a claim alone, %s: %w", m, err)
	}
	if o.timedOut {
		return nil, nil
	}
	return &o.claimMS, nil
}

// measureAlone measures all modes that have claims, one after the other.
func (sim *simulation) measureAlone(ctx context.Context, r *Report) error {
	for _, m := range sim.s.allModes() {
		if m == Naive {
			continue
		}
		ms, err := sim.alone(ctx, m)
		if err != nil {
			return err
		}
		r.alone[m] = ms
	}
	return nil
}
