package simulate

import (
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/version"
)

// shown makes the settings as results carry them.
func (s Settings) shown() Shown {
	return Shown{
		Scenarios: s.Scenarios, Modes: s.allModes(), Trials: s.Trials, Agents: s.Agents, Jobs: s.Jobs,
		Seed: s.Seed, TimeScale: s.TimeScale, Parallel: s.Parallel, LeaseMS: s.scaled(s.Lease).Milliseconds(),
		JobMS: s.Job.ms(), GapMS: s.Gap.ms(), StartMS: inMS(s.Jitter), Versions: versions(),
	}
}

// race are the settings that decide about the figures: other trials, modes or time
// scales show the same race.
func (s Shown) race() any {
	return struct {
		agents, jobs int
		lease, start float64
		job, gap     [2]float64
	}{s.Agents, s.Jobs, float64(s.LeaseMS) / s.TimeScale, s.StartMS, s.JobMS, s.GapMS}
}

func (r Range) ms() [2]float64 { return [2]float64{inMS(r.Least), inMS(r.Most)} }

func inMS(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// allModes are the modes that are raced in any of the scenarios.
func (s Settings) allModes() []Mode {
	var modes []Mode
	for _, m := range Modes() {
		if slices.ContainsFunc(s.Scenarios, func(name string) bool {
			sc, ok := scenarioNamed(name)
			return ok && slices.Contains(s.modesOf(sc), m)
		}) {
			modes = append(modes, m)
		}
	}
	return modes
}

// versions say what was raced.
func versions() map[string]string {
	v := map[string]string{"go": runtime.Version(), "etcd": version.Version, "leasekit": "unknown"}
	if build, ok := debug.ReadBuildInfo(); ok && build.Main.Version != "" {
		v["leasekit"] = build.Main.Version
	}
	return v
}
