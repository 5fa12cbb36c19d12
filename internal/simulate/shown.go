package simulate

import (
	"runtime"
	"runtime/debug"
	"slices"

	"go.etcd.io/etcd/api/v3/version"
)

// shown makes the settings as results carry them.
func (s Settings) shown() Shown {
	return Shown{
		Scenarios: s.Scenarios, Modes: s.allModes(), Trials: s.Trials, Agents: s.Agents, Jobs: s.Jobs,
		Seed: s.Seed, TimeScale: s.TimeScale, Parallel: s.Parallel, LeaseMS: s.scaled(lease).Milliseconds(),
		JobMS:   [2]int64{shortest.Milliseconds(), longest.Milliseconds()},
		GapMS:   [2]int64{shortestGap.Milliseconds(), longestGap.Milliseconds()},
		StartMS: startWithin.Milliseconds(), Versions: versions(),
	}
}

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
