package report_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/leasekit/leasekit/internal/simulate/report"
)

const (
	fixtureAgents = 3
	fixtureJobs   = 30
	fixtureTrials = 100
)

// examplePage is what a run of the race is like, made up from a seed: three
// modes that share 30 jobs among 3 agents, and a frozen agent beside them.
func examplePage(seed uint64) report.Page {
	rng := rand.New(rand.NewPCG(seed, 1))
	lengths := make([]time.Duration, fixtureJobs)
	for i := range lengths {
		lengths[i] = randomTime(rng, 50, 300)
	}
	return report.Page{
		Title: "Three ways to share work",
		Lead: "3 agents share 30 jobs on a real etcd, 100 seeded trials a mode. In every trial agent-2 dies halfway " +
			"through its third job. Without coordination half of the jobs run twice; with leases and fences none does.",
		Settings: exampleSettings(seed),
		Checks: []report.Check{
			{Claim: "Without coordination every trial finishes some jobs more than once", Held: true, Found: "100 of 100 trials"},
			{Claim: "With claim and dispatch no job finishes twice", Held: true, Found: "0 of 200 trials"},
			{Claim: "A frozen agent's late result is refused in every trial", Held: true, Found: "100 of 100 trials"},
			{Claim: "The whole run takes less than 6 minutes", Held: false, Found: "6 min 12 s"},
		},
		Published: "Published figures are those of a simulation, in virtual time.",
		Scenarios: []report.Scenario{
			{Name: "base", About: "The published race: agent-2 crashes halfway through its third job."},
			{Name: "freeze", About: "An agent pauses past its lease, wakes and saves what is no longer its own."},
			{Name: "long", About: "Jobs several leases long, kept by renewal: nobody takes them over."},
		},
		Headline:      "jobs finished more than once",
		Measures:      exampleMeasures(),
		Results:       exampleResults(),
		Timelines:     exampleTimelines(rng, lengths),
		Distributions: exampleDistributions(rng),
	}
}

func exampleSettings(seed uint64) []report.Setting {
	return []report.Setting{
		{Name: "seed", Value: strconv.FormatUint(seed, 10)}, {Name: "trials a mode", Value: "100"},
		{Name: "agents", Value: "3"}, {Name: "jobs", Value: "30"}, {Name: "time scale", Value: "4"},
		{Name: "lease", Value: "2 s"}, {Name: "parallel trials", Value: "16"},
		{Name: "etcd", Value: "3.7.3"}, {Name: "go", Value: "go1.26.8 linux/amd64"}, {Name: "leasekit", Value: "v0.1.0-dev"},
	}
}

func exampleMeasures() []report.Measure {
	return []report.Measure{
		{Name: "trials with duplicates"},
		{Name: "jobs finished more than once", Unit: "per trial", Help: "jobs with more than one accepted result"},
		{Name: "extra runs", Unit: "per trial", Help: "runs that reached their end beyond one per job"},
		{Name: "unfinished jobs", Unit: "per trial"},
		{Name: "crashed job finished after", Unit: "ms"},
		{Name: "takeover after the lease ended", Unit: "ms"},
		{Name: "claim or dispatch time", Unit: "ms per job", Help: "not divided by the time scale"},
		{Name: "lost claim races", Unit: "per trial"},
		{Name: "late results refused", Unit: "per trial"},
		{Name: "late results accepted"},
		{Name: "wall time", Unit: "ms per trial"},
	}
}

func exampleResults() []report.Result {
	figure := func(ours float64) report.Figure { return report.Figure{Ours: new(ours)} }
	beside := func(ours, published float64) report.Figure {
		return report.Figure{Ours: new(ours), Published: new(published)}
	}
	chance := report.Figure{Note: "only by chance"}
	none := report.Figure{}
	return []report.Result{
		{Scenario: "base", Mode: "naive", Trials: fixtureTrials, Figures: []report.Figure{
			beside(100, 100), beside(15.42, 15), beside(16.9, 16.32), beside(0.17, 0.19), chance, none, beside(0, 0), none, none, none, beside(4712, 4660)}},
		{Scenario: "base", Mode: "claim", Trials: fixtureTrials, Figures: []report.Figure{
			beside(0, 0), beside(0, 0), beside(0, 0), beside(0, 0), beside(668.4, 650.2), figure(31.6), beside(1.84, 2.11), beside(0.7, 0.6), beside(0, 0), figure(0), beside(3096, 3027)}},
		{Scenario: "base", Mode: "dispatch", Trials: fixtureTrials, Figures: []report.Figure{
			beside(0, 0), beside(0, 0), beside(0, 0), beside(0, 0), beside(731, 724.1), figure(44.2), beside(2.31, 2.07), none, beside(0, 0), figure(0), figure(3188)}},
		{Scenario: "freeze", Mode: "claim", Trials: fixtureTrials, Figures: []report.Figure{
			figure(0), figure(0), figure(1), figure(0), none, figure(28.1), figure(1.9), figure(0.8), figure(1), figure(0), figure(3350)}},
		{Scenario: "long", Mode: "claim", Trials: fixtureTrials, Figures: []report.Figure{
			figure(0), figure(0), figure(0), figure(0), none, none, figure(1.7), figure(0.4), figure(0), figure(0), figure(12345.6)}},
	}
}

// exampleTimelines has one trial a mode, and one with a frozen agent.
func exampleTimelines(rng *rand.Rand, lengths []time.Duration) []report.Timeline {
	naive := report.Timeline{Scenario: "base", Mode: "naive", Note: "Whoever reads a job as open takes it, also when another has just done so."}
	claim := report.Timeline{Scenario: "base", Mode: "claim", Note: "agent-2's lease outlives it by at most 500 ms; then its job is taken over."}
	dispatch := report.Timeline{Scenario: "base", Mode: "dispatch", Note: "agent-1 leads and hands out the jobs.",
		Marks: []report.Mark{{At: 8 * time.Millisecond, Agent: "agent-1", Kind: report.Leader}}}
	runNaive(rng, lengths, &naive)
	runClaim(rng, lengths, &claim, report.Crash)
	runClaim(rng, lengths, &dispatch, report.Crash)
	freeze := report.Timeline{Scenario: "freeze", Mode: "claim", Note: "agent-2 wakes with a job that is no longer its own."}
	runClaim(rng, lengths, &freeze, report.Freeze)
	return []report.Timeline{naive, claim, dispatch, freeze}
}

// runner is one agent of a made-up trial.
type runner struct {
	name  string
	free  time.Duration
	runs  int
	dead  bool
	spans []report.Span
}

func startRunners(rng *rand.Rand) []*runner {
	var runners []*runner
	for i := range fixtureAgents {
		runners = append(runners, &runner{name: fmt.Sprintf("agent-%d", i+1), free: randomTime(rng, 0, 20)})
	}
	return runners
}

// nextFree is the live agent that asks for work first.
func nextFree(runners []*runner) *runner {
	live := slices.DeleteFunc(slices.Clone(runners), func(r *runner) bool { return r.dead })
	return slices.MinFunc(live, func(a, b *runner) int { return cmp.Compare(a.free, b.free) })
}

func runNaive(rng *rand.Rand, lengths []time.Duration, into *report.Timeline) {
	runners := startRunners(rng)
	takenAt := make([]time.Duration, len(lengths))
	saved := make([]bool, len(lengths))
	for {
		agent := nextFree(runners)
		job := slices.IndexFunc(takenAt, func(at time.Duration) bool { return at == 0 || at > agent.free })
		if job < 0 {
			break
		}
		start := agent.free + randomTime(rng, 10, 60)
		if takenAt[job] == 0 {
			takenAt[job] = start
		}
		span := report.Span{Job: strconv.Itoa(job + 1), Start: start, End: start + lengths[job], Outcome: report.Saved}
		if saved[job] {
			span.Outcome = report.Duplicate
		}
		saved[job] = true
		agent.runs++
		into.Marks = append(into.Marks, report.Mark{At: start, Agent: agent.name, Kind: report.Claim, Job: span.Job})
		if agent.name == "agent-2" && agent.runs == 3 {
			span.End, span.Outcome, agent.dead = start+lengths[job]/2, report.Lost, true
			into.Marks = append(into.Marks, report.Mark{At: span.End, Agent: agent.name, Kind: report.Crash, Job: span.Job})
		}
		agent.free = span.End
		agent.spans = append(agent.spans, span)
	}
	addLanes(into, runners)
}

// runClaim lets agent-2 crash or freeze in its third job.
func runClaim(rng *rand.Rand, lengths []time.Duration, into *report.Timeline, fault report.Kind) {
	const lease = 500 * time.Millisecond
	runners := startRunners(rng)
	var abandoned int
	var leaseEnd time.Duration
	for next := 0; next < len(lengths) || leaseEnd > 0; {
		agent := nextFree(runners)
		start := agent.free + randomTime(rng, 1, 4)
		job := next
		kind := report.Claim
		if leaseEnd > 0 && (start > leaseEnd || next == len(lengths)) {
			start = max(start, leaseEnd+randomTime(rng, 10, 60))
			job, kind, leaseEnd = abandoned, report.Takeover, 0
		} else {
			next++
		}
		span := report.Span{Job: strconv.Itoa(job + 1), Start: start, End: start + lengths[job], Outcome: report.Saved}
		into.Marks = append(into.Marks, report.Mark{At: start, Agent: agent.name, Kind: kind, Job: span.Job})
		agent.runs++
		if agent.name == "agent-2" && agent.runs == 3 {
			at := start + lengths[job]/2
			abandoned, leaseEnd = job, at+lease
			into.Marks = append(into.Marks,
				report.Mark{At: at, Agent: agent.name, Kind: fault, Job: span.Job},
				report.Mark{At: leaseEnd, Agent: agent.name, Kind: report.LeaseEnd, Note: "500 ms after the last renewal"})
			span.End, span.Outcome = at, report.Lost
			agent.dead = fault == report.Crash
			if fault == report.Freeze {
				wake := leaseEnd + 420*time.Millisecond
				span.End, span.Outcome = wake+lengths[job]/2, report.Refused
				into.Marks = append(into.Marks,
					report.Mark{At: wake, Agent: agent.name, Kind: report.Wake},
					report.Mark{At: span.End, Agent: agent.name, Kind: report.Refusal, Job: span.Job, Note: "fenced: token 3 is not the holder's"})
			}
		}
		agent.free = span.End
		agent.spans = append(agent.spans, span)
	}
	addLanes(into, runners)
}

func addLanes(into *report.Timeline, runners []*runner) {
	for _, agent := range runners {
		into.Lanes = append(into.Lanes, report.Lane{Agent: agent.name, Spans: agent.spans})
	}
}

func exampleDistributions(rng *rand.Rand) []report.Distribution {
	around := func(mean, spread float64) []float64 {
		samples := make([]float64, fixtureTrials)
		for i := range samples {
			samples[i] = max(0, mean+spread*rng.NormFloat64())
		}
		return samples
	}
	whole := func(samples []float64) []float64 {
		for i := range samples {
			samples[i] = float64(int(samples[i] + 0.5))
		}
		return samples
	}
	slow := around(1.8, 0.3)
	slow[17], slow[63] = 41.5, 12.25
	return []report.Distribution{
		{Name: "jobs finished more than once", Unit: "jobs per trial", Series: []report.Series{
			{Mode: "naive", Samples: whole(around(15.4, 2.1)), Published: new(15.0)},
			{Mode: "claim", Samples: make([]float64, fixtureTrials), Published: new(0.0)},
			{Mode: "dispatch", Samples: make([]float64, fixtureTrials), Published: new(0.0)}}},
		{Name: "wall time", Unit: "ms per trial", Series: []report.Series{
			{Mode: "naive", Samples: around(4712, 260), Published: new(4660.0)},
			{Mode: "claim", Samples: around(3096, 110), Published: new(3027.0)},
			{Mode: "dispatch", Samples: around(3188, 130)}}},
		{Name: "crashed job finished after", Unit: "ms", Note: "From the crash to the result; the naive mode finishes it by chance only.", Series: []report.Series{
			{Mode: "naive"},
			{Mode: "claim", Samples: around(668, 62), Published: new(650.2)},
			{Mode: "dispatch", Samples: around(731, 58), Published: new(724.1)}}},
		{Name: "claim or dispatch time", Unit: "ms per job", Series: []report.Series{
			{Mode: "claim", Samples: slow, Published: new(2.11)},
			{Mode: "dispatch", Samples: around(2.3, 0.4), Published: new(2.07)}}},
	}
}

// crowdedPage has one timeline with too much of everything, and series whose
// figures are far apart.
func crowdedPage(seed uint64) report.Page {
	rng := rand.New(rand.NewPCG(seed, 2))
	kinds := []report.Kind{report.LeaseEnd, report.Crash, report.Freeze, report.Wake, report.Refusal, report.Takeover,
		report.Partition, report.Heal, report.Leader, "a kind of its own"}
	outcomes := []report.Outcome{report.Saved, report.Duplicate, report.Refused, report.Lost, report.Running, "odd"}
	crowd := report.Timeline{Scenario: "crowd", Mode: "claim"}
	for agent := range 20 {
		lane := report.Lane{Agent: fmt.Sprintf("worker-%d.example.internal", agent)}
		for job := range 10 {
			start := randomTime(rng, 0, 60000)
			lane.Spans = append(lane.Spans, report.Span{Job: fmt.Sprintf("job-%d", agent*10+job), Start: start,
				End: start + randomTime(rng, 10, 9000), Outcome: outcomes[rng.IntN(len(outcomes))]})
		}
		for n := range agent * 3 {
			crowd.Marks = append(crowd.Marks, report.Mark{At: randomTime(rng, 0, 64000), Agent: lane.Agent,
				Kind: kinds[rng.IntN(len(kinds))], Job: fmt.Sprintf("job-%d", n)})
		}
		crowd.Lanes = append(crowd.Lanes, lane)
	}
	for range 8 {
		crowd.Marks = append(crowd.Marks, report.Mark{At: randomTime(rng, 0, 70000), Kind: report.Leader})
	}
	far := report.Distribution{Name: "far apart", Unit: "ms", Series: []report.Series{
		{Mode: "small", Samples: []float64{1e-7, 2e-7, 3e-7}}, {Mode: "large", Samples: []float64{8e11, 9e11, 123456789012}, Published: new(-5e11)},
		{Mode: "a mode with a name that is much too long for its place", Samples: []float64{1}, Published: new(123456.75)}}}
	return report.Page{Title: "A crowd", Timelines: []report.Timeline{crowd}, Distributions: []report.Distribution{far}}
}

func randomTime(rng *rand.Rand, from, to int) time.Duration {
	return time.Duration(from)*time.Millisecond + time.Duration(rng.Int64N(int64(to-from)*int64(time.Millisecond)))
}
