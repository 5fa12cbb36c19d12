package simulate

import "slices"

// PublishedSource is what the published figures are called, PublishedClock what their
// times are of.
const (
	PublishedSource = "a published simulation of 2026-11-13"
	PublishedClock  = "in virtual time, on a store in memory whose round trips take 2 ms"
)

// Published is what the published simulation reports for a mode: 100 trials of the
// base race, in virtual time, with an in-memory store. Nil means not reported.
type Published struct {
	Trials int
	// TrialsWithDuplicates is a percentage.
	TrialsWithDuplicates                    *float64
	DuplicatedJobs, ExtraRuns, Unfinished   *float64
	CrashedJobFinishedAfter                 *float64
	ClaimMS, LostRaces, LateRefused, WallMS *float64
	// Note says about the crashed job what no number says.
	Note string
}

// Published returns the published figures for a scenario and mode; ok is false where
// none were published, or for another race than that one.
func (r *Report) Published(scenario string, m Mode) (p Published, ok bool) {
	if scenario != "base" || r.Settings.race() != Defaults().shown().race() {
		return Published{}, false
	}
	p = Published{Trials: 100}
	switch m {
	case Naive:
		p.TrialsWithDuplicates = figure(100)
		p.DuplicatedJobs, p.ExtraRuns, p.Unfinished = figure(15), figure(16.32), figure(0.19)
		p.ClaimMS, p.WallMS, p.Note = figure(0), figure(4660), "only by chance"
	case Claim:
		p.TrialsWithDuplicates = figure(0)
		p.DuplicatedJobs, p.Unfinished = figure(0), figure(0)
		p.CrashedJobFinishedAfter, p.ClaimMS, p.WallMS = figure(650.2), figure(2.11), figure(3027)
		p.LostRaces, p.LateRefused = figure(0.6), figure(0)
	case Dispatch:
		p.TrialsWithDuplicates = figure(0)
		p.DuplicatedJobs, p.Unfinished = figure(0), figure(0)
		p.CrashedJobFinishedAfter, p.ClaimMS = figure(724.1), figure(2.07)
	}
	return p, true
}

// HasPublished tells whether any of the results has published figures beside it.
func (r *Report) HasPublished() bool {
	return slices.ContainsFunc(r.Results, func(res Result) bool {
		_, ok := r.Published(res.Scenario, res.Mode)
		return ok
	})
}

func figure(x float64) *float64 { return &x }
