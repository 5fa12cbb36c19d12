package simulate

import (
	"fmt"
	"testing"

	"github.com/leasekit/leasekit/integration/etcdtest"
)

func TestMain(m *testing.M) { etcdtest.Main(m, etcdtest.Config{}) }

// small is a race that takes a few seconds: enough for its shape, not for its times.
func small(scenario string) Settings {
	return Settings{Scenarios: []string{scenario}, Trials: 1, Agents: 3, Jobs: 12, Seed: 1, TimeScale: 2, Parallel: 4}
}

// raceHere races on the package's shared etcd.
func raceHere(t *testing.T, s Settings) *Report {
	t.Helper()
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	report, err := raceOn(t.Context(), etcdtest.Shared(t).Endpoints()[0], s, func(Progress) {})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// TestScenarios races each scenario once in each of its modes.
func TestScenarios(t *testing.T) {
	for _, name := range Scenarios() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := raceHere(t, small(name))
			if err := report.Failed(); err != nil {
				t.Error(err)
			}
			for _, c := range report.Checks {
				t.Logf("%s: %v: %s: %s", c.Mode, c.Held, c.Claim, c.Found)
			}
			for _, r := range report.Results {
				t.Log(fmt.Sprintf("%+v", r), r.DetailText())
			}
		})
	}
}
