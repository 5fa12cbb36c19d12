package simulate

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasekit/leasekit/internal/simulate/report"
)

// WriteHTML writes the report as one self-contained page.
func (r *Report) WriteHTML(w io.Writer) error { return report.Render(w, r.page()) }

// WriteSVG writes the timelines as one picture.
func (r *Report) WriteSVG(w io.Writer) error { return report.RenderTimelines(w, r.page()) }

// page is the report as its HTML shows it.
func (r *Report) page() report.Page {
	s := r.Settings
	p := report.Page{
		Title: "Three ways to share work, raced on a real etcd",
		Lead: fmt.Sprintf("%d agents share %d jobs, %d trials a mode, on an embedded etcd. Times are divided by the time scale of %g; "+
			"the time of a claim is not.", s.Agents, s.Jobs, s.Trials, s.TimeScale),
		Settings: r.pageSettings(),
		Measures: r.pageMeasures(),
	}
	if r.HasPublished() {
		p.Published = fmt.Sprintf("Published figures are those of %s: 100 trials, %s. Ours are real time on this machine.", PublishedSource, PublishedClock)
	}
	for _, c := range r.Checks {
		p.Checks = append(p.Checks, report.Check{Claim: fmt.Sprintf("%s, %s: %s", c.Scenario, c.Mode, c.Claim), Held: c.Held, Found: c.Found})
	}
	for _, name := range s.Scenarios {
		p.Scenarios = append(p.Scenarios, report.Scenario{Name: name, About: About(name)})
	}
	for i := range r.Results {
		result := &r.Results[i]
		p.Results = append(p.Results, r.pageResult(result))
		if t, ok := r.pageTimeline(result); ok {
			p.Timelines = append(p.Timelines, t)
		}
	}
	p.Distributions = r.pageDistributions()
	return p
}

func (r *Report) pageSettings() []report.Setting {
	s := r.Settings
	settings := []report.Setting{
		{Name: "seed", Value: strconv.FormatUint(s.Seed, 10)},
		{Name: "trials a mode", Value: strconv.Itoa(s.Trials)},
		{Name: "agents", Value: strconv.Itoa(s.Agents)},
		{Name: "jobs", Value: strconv.Itoa(s.Jobs)},
		{Name: "job length", Value: fmt.Sprintf("%g..%g ms", s.JobMS[0], s.JobMS[1])},
		{Name: "gap of the naive mode", Value: fmt.Sprintf("%g..%g ms", s.GapMS[0], s.GapMS[1])},
		{Name: "time scale", Value: strconv.FormatFloat(s.TimeScale, 'g', -1, 64)},
		{Name: "starts within", Value: fmt.Sprintf("%g ms", s.StartMS)},
		{Name: "lease", Value: fmt.Sprintf("%g ms, %d ms in real time", float64(s.LeaseMS)/s.TimeScale, s.LeaseMS)},
		{Name: "trials at a time", Value: strconv.Itoa(s.Parallel)},
	}
	for _, name := range slices.Sorted(maps.Keys(s.Versions)) {
		settings = append(settings, report.Setting{Name: name, Value: s.Versions[name]})
	}
	return settings
}

func (r *Report) pageMeasures() []report.Measure {
	measures := []report.Measure{
		{Name: "trials with duplicates", Unit: "%"},
		{Name: "jobs finished more than once", Unit: "per trial", Help: "more than one accepted save, as etcd's history shows"},
		{Name: "extra runs", Unit: "per trial", Help: "runs that reached their end, beyond one per job"},
		{Name: "unfinished jobs", Unit: "per trial", Help: "neither saved nor buried"},
		{Name: "struck job finished after", Unit: "ms", Help: "from the fault to the accepted save"},
		{Name: "takeover after the lease ended", Unit: "ms", Help: "until somebody was free, too"},
		{Name: "claim or dispatch, alone", Unit: "ms per job", Help: "one agent while nothing else runs; not scaled"},
		{Name: "claim or dispatch, in the race", Unit: "ms per job", Help: fmt.Sprintf("up to %d trials share this machine; not scaled", r.Settings.Parallel)},
		{Name: "reads", Unit: "per job", Help: "requests: lists, polls and watches"},
		{Name: "heartbeats", Unit: "per job", Help: "requests about leases"},
		{Name: "writes", Unit: "per job", Help: "requests: claims, assignments, saves"},
		{Name: "lost claim races", Unit: "per trial"},
		{Name: "late results refused", Unit: "per trial"},
		{Name: "late results accepted", Help: "in all trials"},
		{Name: "wall time", Unit: "ms per trial", Help: "to the last accepted save"},
	}
	for _, d := range r.details() {
		m := report.Measure{Name: d.label, Unit: "per trial"}
		if d.total {
			m.Unit, m.Help = "", "in all trials"
		}
		measures = append(measures, m)
	}
	return measures
}

// details are the figures that only some of the scenarios have.
func (r *Report) details() (all []detail) {
	for _, name := range r.Settings.Scenarios {
		if sc, ok := scenarioNamed(name); ok {
			all = append(all, sc.details...)
		}
	}
	return all
}

// pageResult lists the figures in the order of pageMeasures.
func (r *Report) pageResult(res *Result) report.Result {
	p, _ := r.Published(res.Scenario, res.Mode)
	figures := []report.Figure{
		{Ours: figure(res.WithDuplicates()), Published: p.TrialsWithDuplicates},
		{Ours: &res.DuplicatedJobs, Published: p.DuplicatedJobs},
		{Ours: &res.ExtraRuns, Published: p.ExtraRuns},
		{Ours: &res.Unfinished, Published: p.Unfinished},
		{Ours: res.CrashedJobFinishedAfter, Published: p.CrashedJobFinishedAfter, Note: p.Note},
		{Ours: res.TakeoverAfterLeaseEnd},
		{Ours: res.ClaimAloneMS, Published: p.ClaimMS},
		{Ours: &res.ClaimMS},
		{Ours: &res.Reads},
		{Ours: &res.Heartbeats},
		{Ours: &res.Writes},
		{Ours: &res.LostRaces, Published: p.LostRaces},
		{Ours: &res.LateRefused, Published: p.LateRefused},
		{Ours: figure(float64(res.LateAccepted))},
		{Ours: &res.WallMS, Published: p.WallMS},
	}
	for _, d := range r.details() {
		f := report.Figure{}
		if value, ok := res.Details[d.name]; ok {
			f.Ours = &value
		}
		figures = append(figures, f)
	}
	return report.Result{Scenario: res.Scenario, Mode: string(res.Mode), Trials: res.Trials, Figures: figures}
}

// pageTimeline shows the first trial.
func (r *Report) pageTimeline(result *Result) (report.Timeline, bool) {
	trials := r.trials[outcomesKey(result.Scenario, result.Mode)]
	if len(trials) == 0 || trials[0].story == nil {
		return report.Timeline{}, false
	}
	c := trials[0].story
	c.mu.Lock()
	defer c.mu.Unlock()
	scaled := func(at time.Time) time.Duration {
		return time.Duration(float64(at.Sub(c.began)) / r.Settings.TimeScale)
	}
	t := report.Timeline{Scenario: result.Scenario, Mode: string(result.Mode), Note: "Trial 1 of " + strconv.Itoa(result.Trials) + "."}
	for a := range r.Settings.Agents {
		t.Lanes = append(t.Lanes, report.Lane{Agent: agentName(a), Spans: spansOf(c.runs, agentName(a), scaled)})
	}
	for _, m := range c.moments {
		t.Marks = append(t.Marks, report.Mark{At: max(0, scaled(m.at)), Agent: m.agent, Kind: pageKinds[m.kind], Job: jobLabel(m.job)})
	}
	return t, true
}

func spansOf(runs []*run, agent string, scaled func(time.Time) time.Duration) []report.Span {
	var spans []report.Span
	for _, r := range runs {
		if r.agent != agent {
			continue
		}
		span := report.Span{Job: jobLabel(r.job), Start: scaled(r.began), End: -1, Outcome: pageOutcomes[r.ending], Note: r.note}
		if !r.over.IsZero() {
			span.End = scaled(r.over)
		}
		if r.ending == saved && r.reached { // the save was under way while the agent had its next job
			span.End = scaled(r.handedIn)
		}
		if r.ending == saved && r.duplicate {
			span.Outcome = report.Duplicate
		}
		spans = append(spans, span)
	}
	return spans
}

var pageOutcomes = map[ending]report.Outcome{
	running: report.Running, saved: report.Saved, refused: report.Refused, lost: report.Lost,
}

var pageKinds = map[kind]report.Kind{
	claimed: report.Claim, leaseEnded: report.LeaseEnd, crashed: report.Crash, frozen: report.Freeze, woken: report.Wake,
	cutOff: report.Partition, healed: report.Heal, turnedAway: report.Refusal, tookOver: report.Takeover, led: report.Leader,
}

// jobLabel is a job's number: short, for bars.
func jobLabel(id string) string {
	return strings.TrimLeft(strings.TrimPrefix(id, "job-"), "0")
}

// pageDistributions shows the first scenario's figures over its trials.
func (r *Report) pageDistributions() []report.Distribution {
	distributions := []struct {
		report.Distribution
		samples   func(trials []*outcome) []float64
		published func(Published) *float64
	}{
		{
			report.Distribution{Name: "jobs finished more than once", Unit: "jobs per trial"},
			func(trials []*outcome) []float64 {
				return samplesOf(trials, func(o *outcome) float64 { return float64(o.duplicated) })
			},
			func(p Published) *float64 { return p.DuplicatedJobs },
		}, {
			report.Distribution{Name: "struck job finished after", Unit: "ms"},
			func(trials []*outcome) []float64 {
				return gather(trials, func(o *outcome) []float64 { return o.struckFinishedMS })
			},
			func(p Published) *float64 { return p.CrashedJobFinishedAfter },
		}, {
			report.Distribution{Name: "takeover after the lease ended", Unit: "ms"},
			func(trials []*outcome) []float64 {
				return gather(trials, func(o *outcome) []float64 { return o.takeoverMS })
			},
			func(Published) *float64 { return nil },
		}, {
			report.Distribution{Name: "claim or dispatch, in the race", Unit: "ms per job", Note: "Mean of a trial, in real time."},
			func(trials []*outcome) []float64 {
				return samplesOf(trials, func(o *outcome) float64 { return o.claimMS })
			},
			func(Published) *float64 { return nil },
		}, {
			report.Distribution{Name: "wall time", Unit: "ms"},
			func(trials []*outcome) []float64 {
				return samplesOf(trials, func(o *outcome) float64 { return o.wallMS })
			},
			func(p Published) *float64 { return p.WallMS },
		},
	}
	var out []report.Distribution
	for _, scenario := range r.Settings.Scenarios {
		for _, d := range distributions {
			shown := d.Distribution
			if len(r.Settings.Scenarios) > 1 {
				shown.Name = scenario + ": " + shown.Name
			}
			for _, result := range r.Results {
				if result.Scenario != scenario {
					continue
				}
				if samples := d.samples(r.trials[outcomesKey(scenario, result.Mode)]); len(samples) > 0 {
					p, _ := r.Published(scenario, result.Mode)
					shown.Series = append(shown.Series, report.Series{Mode: string(result.Mode), Samples: samples, Published: d.published(p)})
				}
			}
			if len(shown.Series) > 0 {
				out = append(out, shown)
			}
		}
	}
	return out
}
