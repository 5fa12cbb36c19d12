package simulate

import (
	"errors"
	"fmt"
	"slices"
)

// Report is the result of a run.
type Report struct {
	// Settings are all that has to be known to run the same again.
	Settings Shown `json:"settings"`
	// Results hold one entry per scenario and mode.
	Results []Result `json:"results"`

	// Checks are the promises that were tested, and whether they were kept.
	Checks []Check `json:"-"`

	trials map[string][]*outcome // by scenario and mode
	alone  map[Mode]*float64     // what a claim takes while nothing else runs
}

// Shown are the settings as results carry them.
type Shown struct {
	Scenarios []string `json:"scenarios"`
	Modes     []Mode   `json:"modes"`
	Trials    int      `json:"trials"`
	Agents    int      `json:"agents"`
	Jobs      int      `json:"jobs"`
	Seed      uint64   `json:"seed"`
	TimeScale float64  `json:"time_scale"`
	Parallel  int      `json:"parallel"`
	// LeaseMS is the real lease, JobMS and GapMS are the plan's bounds, unscaled.
	LeaseMS int64      `json:"lease_ms"`
	JobMS   [2]float64 `json:"job_ms"`
	GapMS   [2]float64 `json:"gap_ms"`
	StartMS float64    `json:"start_within_ms"`
	// Versions say what was raced, by component.
	Versions map[string]string `json:"versions"`
}

// Result is what one mode did in one scenario. Means are over trials; times are
// divided by the time scale, the claim time is not. A nil time means that there was
// nothing to measure.
type Result struct {
	Scenario                string   `json:"scenario"`
	Mode                    Mode     `json:"mode"`
	Trials                  int      `json:"trials"`
	TrialsWithDuplicates    int      `json:"trials_with_duplicates"`
	DuplicatedJobs          float64  `json:"duplicated_jobs_per_trial"`
	ExtraRuns               float64  `json:"extra_runs_per_trial"`
	Unfinished              float64  `json:"unfinished_per_trial"`
	CrashedJobFinishedAfter *float64 `json:"crashed_job_finished_after_ms"`
	TakeoverAfterLeaseEnd   *float64 `json:"takeover_after_lease_end_ms"`
	// ClaimMS is of the race, where all trials at a time share the machine, ClaimAloneMS
	// of one agent while nothing else runs; nil without claims.
	ClaimMS      float64  `json:"claim_ms_per_job"`
	ClaimAloneMS *float64 `json:"claim_alone_ms_per_job"`
	// Reads, Heartbeats and Writes are what agents and dispatchers asked of etcd.
	Reads        float64 `json:"reads_per_job"`
	Heartbeats   float64 `json:"heartbeats_per_job"`
	Writes       float64 `json:"writes_per_job"`
	LostRaces    float64 `json:"lost_races_per_trial"`
	LateRefused  float64 `json:"late_results_refused_per_trial"`
	LateAccepted int     `json:"late_results_accepted"`
	WallMS       float64 `json:"wall_ms_per_trial"`
	// Details are the figures that only this scenario has.
	Details map[string]float64 `json:"details,omitempty"`
}

// WithDuplicates is the share of trials in which a job was finished more than once, in
// percent.
func (r *Result) WithDuplicates() float64 {
	return 100 * float64(r.TrialsWithDuplicates) / float64(max(1, r.Trials))
}

// Check is one promise and whether the run kept it.
type Check struct {
	// Scenario and Mode say where it was tested.
	Scenario string
	Mode     Mode
	// Claim says what had to hold, Found what was seen.
	Claim, Found string
	// Held tells whether it held.
	Held bool
	// Vital promises are about safety: a run that broke one has failed. The others
	// say whether the scenario showed what it is there for.
	Vital bool
}

// resultOf makes the result of a mode's trials in a scenario.
func resultOf(sc *scenario, m Mode, trials []*outcome) Result {
	per := func(figure func(*outcome) float64) float64 { return meanOf(trials, figure) }
	r := Result{
		Scenario: sc.name, Mode: m, Trials: len(trials),
		TrialsWithDuplicates:    countTrials(trials, func(o *outcome) bool { return o.duplicated > 0 }),
		DuplicatedJobs:          per(func(o *outcome) float64 { return float64(o.duplicated) }),
		ExtraRuns:               per(func(o *outcome) float64 { return float64(o.extraRuns) }),
		Unfinished:              per(func(o *outcome) float64 { return float64(o.unfinished) }),
		CrashedJobFinishedAfter: mean(gather(trials, func(o *outcome) []float64 { return o.struckFinishedMS })),
		TakeoverAfterLeaseEnd:   mean(gather(trials, func(o *outcome) []float64 { return o.takeoverMS })),
		ClaimMS:                 per(func(o *outcome) float64 { return o.claimMS }),
		Reads:                   per(func(o *outcome) float64 { return o.requests[reads] }),
		Heartbeats:              per(func(o *outcome) float64 { return o.requests[heartbeats] }),
		Writes:                  per(func(o *outcome) float64 { return o.requests[writes] }),
		LostRaces:               per(func(o *outcome) float64 { return float64(o.lostRaces) }),
		LateRefused:             per(func(o *outcome) float64 { return float64(o.lateRefused) }),
		WallMS:                  per(func(o *outcome) float64 { return o.wallMS }),
	}
	for _, o := range trials {
		r.LateAccepted += o.lateAccepted
	}
	for _, d := range sc.details {
		if d.modes != nil && !slices.Contains(d.modes, m) {
			continue
		}
		if r.Details == nil {
			r.Details = map[string]float64{}
		}
		r.Details[d.name] = per(d.of)
		if d.total {
			r.Details[d.name] *= float64(len(trials))
		}
	}
	return r
}

// checksOf tests what a mode promises in a scenario.
func checksOf(sc *scenario, r *Result, trials []*outcome) []Check {
	var checks []Check
	if r.Mode != Naive {
		for _, c := range []Check{
			everyTrial("no job was finished more than once", trials, func(o *outcome) bool { return o.duplicated == 0 }),
			everyTrial("no job was left unfinished", trials, func(o *outcome) bool { return o.unfinished == 0 }),
			everyTrial("no late result was accepted", trials, func(o *outcome) bool { return o.lateAccepted == 0 }),
		} {
			c.Vital = true
			checks = append(checks, c)
		}
	}
	checks = append(checks, everyTrial("the story came to its end in time", trials, func(o *outcome) bool { return !o.timedOut }))
	if sc.shows != nil {
		checks = append(checks, sc.shows(r, trials)...)
	}
	for i := range checks {
		checks[i].Scenario, checks[i].Mode = r.Scenario, r.Mode
	}
	return checks
}

// Failed is an error that names every vital promise that was broken, or nil.
func (r *Report) Failed() error {
	var errs []error
	for _, c := range r.Checks {
		if c.Vital && !c.Held {
			errs = append(errs, fmt.Errorf("%s, %s: %q held %s", c.Scenario, c.Mode, c.Claim, c.Found))
		}
	}
	return errors.Join(errs...)
}

// NotShown lists the promises that are not about safety and did not show in every
// trial: on a busy machine a fault may come too late to matter.
func (r *Report) NotShown() []Check {
	var open []Check
	for _, c := range r.Checks {
		if !c.Held && !c.Vital {
			open = append(open, c)
		}
	}
	return open
}

// DetailText says a result's details in words; "" when it has none.
func (r *Result) DetailText() string {
	sc, ok := scenarioNamed(r.Scenario)
	if !ok {
		return ""
	}
	text := ""
	for _, d := range sc.details {
		value, ok := r.Details[d.name]
		if !ok {
			continue
		}
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%s %.4g", d.label, value)
	}
	return text
}
