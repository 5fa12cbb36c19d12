package simulate

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/leasekit/leasekit/internal/embedetcd"
)

// ReadmeTrials is how many trials a chapter of the story has unless told otherwise.
const ReadmeTrials = 8

// chapter is one part of the story: what is raced, and what it shows.
type chapter struct {
	scenario string
	modes    []Mode
	before   string
	after    func(map[Mode]Result) string
}

// chapters is the two-minute story for newcomers.
func chapters(s Settings) []chapter {
	return []chapter{
		{"base", []Mode{Naive},
			fmt.Sprintf("%d agents share %d jobs. Nobody coordinates: each reads that a job is open, and then writes that it is its own. One of them dies.", s.Agents, s.Jobs),
			func(r map[Mode]Result) string {
				return fmt.Sprintf("%.1f of %d jobs were finished more than once, in %d of %d trials with some; %.2f a trial were never finished.",
					r[Naive].DuplicatedJobs, s.Jobs, r[Naive].TrialsWithDuplicates, r[Naive].Trials, r[Naive].Unfinished)
			}},
		{"base", []Mode{Claim, Dispatch},
			"The same jobs and the same death, with claims on leases: first every agent claims for itself, then one elected dispatcher hands out.",
			func(r map[Mode]Result) string {
				return fmt.Sprintf("%d and %d trials with duplicates, %g and %g jobs unfinished. The dead agent's job was done after %s and %s: its lease had to end first.%s",
					r[Claim].TrialsWithDuplicates, r[Dispatch].TrialsWithDuplicates, r[Claim].Unfinished, r[Dispatch].Unfinished,
					msText(r[Claim].CrashedJobFinishedAfter), msText(r[Dispatch].CrashedJobFinishedAfter), claimText(r[Claim].ClaimAloneMS))
			}},
		{"freeze", []Mode{Claim},
			"An agent freezes past its lease. Its job goes to another. Then it wakes, believes that nothing happened, and saves its result.",
			func(r map[Mode]Result) string {
				return fmt.Sprintf("%.1f late results a trial were refused, %d accepted: the save carried a token that was no longer current.", r[Claim].LateRefused, r[Claim].LateAccepted)
			}},
		{"failover", []Mode{Dispatch},
			"The dispatcher itself dies, with an assignment still on its way to etcd.",
			func(r map[Mode]Result) string {
				d := r[Dispatch].Details
				return fmt.Sprintf("A standby led in %g of %d trials. %.1f late assignments a trial arrived and were refused, %g were accepted.",
					d["trials_with_standby"], r[Dispatch].Trials, d["late_assignments_refused_per_trial"], d["late_assignments_accepted"])
			}},
		{"outside", []Mode{Naive, Claim},
			"Jobs have effects outside etcd, say in a bank. The store there keeps the highest token of each job and the idempotency keys that it has seen.",
			func(r map[Mode]Result) string {
				n, c := r[Naive].Details, r[Claim].Details
				return fmt.Sprintf("Without coordination %g effects were doubled. With claims %g: %.1f a trial came with a lower token and were refused, %.1f were repeats and ignored.",
					n["effects_doubled"], c["effects_doubled"], c["lower_tokens_refused_per_trial"], c["repeated_effects_ignored_per_trial"])
			}},
	}
}

func claimText(alone *float64) string {
	if alone == nil {
		return ""
	}
	return fmt.Sprintf(" A claim takes %.1f ms while nothing else runs.", *alone)
}

func msText(ms *float64) string {
	if ms == nil {
		return "never"
	}
	return fmt.Sprintf("%.0f ms", *ms)
}

// Story races one chapter after the other and says, by say, what happens and what
// came of it. Its report holds all chapters. It blocks and ends as [Run] does. The
// settings' scenarios and modes do not matter.
func Story(ctx context.Context, s Settings, tell func(Progress), say func(string)) (*Report, error) {
	s.Modes, s.Scenarios = nil, []string{"base"}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	etcd, err := embedetcd.Start(ctx, embedetcd.Config{Fast: true})
	if err != nil {
		return nil, err
	}
	defer etcd.Close()
	return storyOn(ctx, etcd.Endpoints()[0], s, tell, say)
}

func storyOn(ctx context.Context, endpoint string, s Settings, tell func(Progress), say func(string)) (*Report, error) {
	whole := &Report{Settings: s.shown(), trials: map[string][]*outcome{}}
	whole.Settings.Scenarios = nil
	all := chapters(s)
	for i, ch := range all {
		say(fmt.Sprintf("%d/%d  %s", i+1, len(all), ch.before))
		s.Scenarios, s.Modes = []string{ch.scenario}, ch.modes
		part, err := raceOn(ctx, endpoint, s, tell)
		if err != nil {
			return nil, err
		}
		byMode := map[Mode]Result{}
		for _, r := range part.Results {
			byMode[r.Mode] = r
		}
		say("     " + ch.after(byMode))
		whole.add(part, ch.scenario)
	}
	return whole, nil
}

// add takes in the report of a part.
func (r *Report) add(part *Report, scenario string) {
	if !slices.Contains(r.Settings.Scenarios, scenario) {
		r.Settings.Scenarios = append(r.Settings.Scenarios, scenario)
	}
	r.Results = append(r.Results, part.Results...)
	r.Checks = append(r.Checks, part.Checks...)
	maps.Copy(r.trials, part.trials)
}
