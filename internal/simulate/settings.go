package simulate

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Mode is a way of sharing jobs among agents.
type Mode string

// The modes.
const (
	// Naive agents read that a job is open, and then write that it is theirs.
	Naive Mode = "naive"
	// Claim is the library's mode claim: every agent claims for itself.
	Claim Mode = "claim"
	// Dispatch is the library's mode dispatch: one elected dispatcher hands out.
	Dispatch Mode = "dispatch"
)

// Modes lists all modes, in the order of the results.
func Modes() []Mode { return []Mode{Naive, Claim, Dispatch} }

const (
	victim       = 1 // the agent that meets the fault: agent 2
	victimsRun   = 3 // the run in the middle of which it does
	queueName    = "race"
	maxAgents    = 64
	maxJobs      = 10_000
	maxTrials    = 100_000
	maxParallel  = 256
	maxTimeScale = 200.0
	maxDuration  = 10 * time.Second // of a job, a gap, a start, before it is scaled
	maxLease     = time.Minute
)

// Settings say what to race. The zero value is not valid: start from [Defaults].
type Settings struct {
	// Scenarios are raced one after the other; Modes within each.
	Scenarios []string
	// Modes are raced; none means all those that the scenario has.
	Modes []Mode
	// Trials is how many trials each mode gets in each scenario.
	Trials int
	// Agents share Jobs jobs in every trial.
	Agents, Jobs int
	// Job is how long jobs take, Gap the naive mode's time between reading "open" and
	// writing "taken".
	Job, Gap Range
	// Jitter is within what time all agents start.
	Jitter time.Duration
	// Lease is the lease of a session.
	Lease time.Duration
	// Seed makes the plans.
	Seed uint64
	// TimeScale multiplies every duration of the plan.
	TimeScale float64
	// Parallel is how many trials run at a time.
	Parallel int
}

// Defaults are the published race's settings.
func Defaults() Settings {
	const ms = time.Millisecond
	return Settings{
		Scenarios: []string{"base"}, Trials: 100, Agents: 3, Jobs: 30, Seed: 1, TimeScale: 4, Parallel: 16,
		Job: Range{50 * ms, 300 * ms}, Gap: Range{10 * ms, 60 * ms}, Jitter: 20 * ms, Lease: 500 * ms,
	}
}

// SettingError says which setting cannot be raced, and what would do.
type SettingError struct {
	// Setting is named as its flag, without dashes.
	Setting string
	// Value is what it was, Want what it may be, Try one that would do.
	Value, Want, Try string
}

// Error names setting and value, and what is wanted.
func (e *SettingError) Error() string {
	return fmt.Sprintf("--%s is %s: %s", e.Setting, e.Value, e.Want)
}

// Validate returns a [SettingError] for the first setting that cannot be raced.
func (s Settings) Validate() error {
	if err := s.validateNames(); err != nil {
		return err
	}
	for _, n := range []struct {
		name        string
		value       int
		least, most int
		why         string
	}{
		{"trials", s.Trials, 1, maxTrials, ""},
		{"agents", s.Agents, 2, maxAgents, ", since agent 2 meets the fault"},
		{"jobs", s.Jobs, 3 * s.Agents, maxJobs, fmt.Sprintf(" with %d agents, so that agent 2 gets to its third job", s.Agents)},
		{"parallel", s.Parallel, 1, maxParallel, ""},
	} {
		if n.value < n.least || n.value > n.most {
			return &SettingError{n.name, strconv.Itoa(n.value), fmt.Sprintf("want %d to %d%s", n.least, n.most, n.why), fmt.Sprintf("--%s %d", n.name, max(n.least, min(n.value, n.most)))}
		}
	}
	if err := s.validateDurations(); err != nil {
		return err
	}
	return s.validateTimeScale()
}

// validateDurations looks at what the time scale multiplies.
func (s Settings) validateDurations() error {
	for _, d := range []struct {
		name        string
		value       Range
		least, most time.Duration
		try         string
	}{
		{"job", s.Job, time.Millisecond, maxDuration, Defaults().Job.String()},
		{"gap", s.Gap, 0, maxDuration, Defaults().Gap.String()},
		{"jitter", Range{s.Jitter, s.Jitter}, 0, maxDuration, Defaults().Jitter.String()},
		{"lease", Range{s.Lease, s.Lease}, time.Millisecond, maxLease, Defaults().Lease.String()},
	} {
		if d.value.Least < d.least || d.value.Most > d.most || d.value.Least > d.value.Most {
			return &SettingError{d.name, d.value.String(), fmt.Sprintf("want %v to %v", d.least, d.most), fmt.Sprintf("--%s %s", d.name, d.try)}
		}
	}
	return nil
}

func (s Settings) validateNames() error {
	if len(s.Scenarios) == 0 {
		return &SettingError{"scenario", "empty", "want one or more of " + strings.Join(Scenarios(), ", "), "--scenario base"}
	}
	for i, name := range s.Scenarios {
		sc, ok := scenarioNamed(name)
		switch {
		case !ok:
			return &SettingError{"scenario", strconv.Quote(name), "want one or more of " + strings.Join(Scenarios(), ", "), "--scenario base"}
		case slices.Contains(s.Scenarios[:i], name):
			return &SettingError{"scenario", strconv.Quote(name), "it is named twice", "--scenario " + name}
		}
		for j, m := range s.Modes {
			switch {
			case !slices.Contains(Modes(), m):
				return &SettingError{"mode", strconv.Quote(string(m)), "want one or more of naive, claim, dispatch", "--mode claim"}
			case slices.Contains(s.Modes[:j], m):
				return &SettingError{"mode", strconv.Quote(string(m)), "it is named twice", "--mode " + string(m)}
			case !slices.Contains(sc.modes, m):
				return &SettingError{"mode", string(m), fmt.Sprintf("scenario %s is about %s", name, joinModes(sc.modes)), "--mode " + joinModes(sc.modes)}
			}
		}
	}
	return nil
}

func joinModes(modes []Mode) string {
	names := make([]string, len(modes))
	for i, m := range modes {
		names[i] = string(m)
	}
	return strings.Join(names, ",")
}

// validateTimeScale demands leases that etcd can grant.
func (s Settings) validateTimeScale() error {
	value := strconv.FormatFloat(s.TimeScale, 'g', -1, 64)
	if !(s.TimeScale > 0 && s.TimeScale <= maxTimeScale) {
		return &SettingError{"time-scale", value, fmt.Sprintf("want a number up to %g", maxTimeScale), "--time-scale 4"}
	}
	if l := s.scaled(s.Lease); l < time.Second || l%time.Second != 0 {
		return &SettingError{"time-scale", value,
			fmt.Sprintf("the lease of %v becomes %v, and etcd's leases are whole seconds, at least 1s", s.Lease, l), s.wholeLease()}
	}
	return nil
}

// wholeLease is the flag that makes the lease whole seconds: a time scale near the one
// asked for that can be typed, or else a lease.
func (s Settings) wholeLease() string {
	near := math.Max(1, math.Round(s.scaled(s.Lease).Seconds()))
	for seconds := near; seconds < near+60; seconds++ {
		scale := math.Round(1000*seconds/s.Lease.Seconds()) / 1000
		try := s
		try.TimeScale = scale
		if scale <= maxTimeScale && try.scaled(s.Lease) == time.Duration(seconds)*time.Second {
			return fmt.Sprintf("--time-scale %g", scale)
		}
	}
	return fmt.Sprintf("--lease %v --time-scale %g", Defaults().Lease, Defaults().TimeScale)
}

// scaled is a planned duration in real time.
func (s Settings) scaled(d time.Duration) time.Duration {
	return time.Duration(math.Round(float64(d) * s.TimeScale))
}

// unscaledMS is a real duration in the plan's time, in milliseconds.
func (s Settings) unscaledMS(d time.Duration) float64 {
	return float64(d) / float64(time.Millisecond) / s.TimeScale
}

// modesOf are the modes to race in a scenario.
func (s Settings) modesOf(sc *scenario) []Mode {
	if len(s.Modes) == 0 {
		return sc.modes
	}
	var modes []Mode
	for _, m := range Modes() {
		if slices.Contains(s.Modes, m) {
			modes = append(modes, m)
		}
	}
	return modes
}
