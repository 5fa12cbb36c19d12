package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/integration/etcdtest"
)

func TestMain(m *testing.M) { etcdtest.Main(m, etcdtest.Config{}) }

// TestEveryScenarioInEveryMode races each of them once, several side by side, on jobs
// that are few: enough for the shape, not for the times. What a scenario is there to
// show it may miss on a machine that is too busy to keep sessions alive, and is then
// raced again. What is promised must hold every time.
func TestEveryScenarioInEveryMode(t *testing.T) {
	s := Settings{Scenarios: Scenarios(), Trials: 1, Agents: 3, Jobs: 12, Seed: 1, TimeScale: 4, Parallel: 6}
	d := Defaults()
	s.Job, s.Gap, s.Jitter, s.Lease = d.Job, d.Gap, d.Jitter, d.Lease
	endpoint := etcdtest.Shared(t).Endpoints()[0]
	for try := range 3 {
		report, err := raceOn(t.Context(), endpoint, s, func(Progress) {})
		if err != nil {
			t.Fatal(err)
		}
		if err := report.Failed(); err != nil {
			t.Fatal(err)
		}
		if try == 0 {
			checkJSON(t, report)
			checkPage(t, report)
		}
		s.Scenarios = nil
		for _, r := range report.Results {
			open := missing(report, r)
			for _, what := range open {
				t.Logf("%s, %s: %s", r.Scenario, r.Mode, what)
			}
			if len(open) > 0 && !slices.Contains(s.Scenarios, r.Scenario) {
				s.Scenarios = append(s.Scenarios, r.Scenario)
			}
		}
		if len(s.Scenarios) == 0 {
			return
		}
	}
	t.Errorf("these scenarios did not show what they are there for: %v", s.Scenarios)
}

// missing lists what a result should show and does not.
func missing(report *Report, r Result) (open []string) {
	for _, c := range report.NotShown() {
		if c.Scenario == r.Scenario && c.Mode == r.Mode {
			open = append(open, fmt.Sprintf("%q held %s", c.Claim, c.Found))
		}
	}
	late := r.Scenario == "freeze" || r.Scenario == "partition" || r.Scenario == "outside"
	switch {
	case r.WallMS <= 0:
		open = append(open, "it took no time")
	case r.Writes < 1 || r.Reads <= 0:
		open = append(open, fmt.Sprintf("%g writes and %g reads a job", r.Writes, r.Reads))
	case r.Mode == Naive:
	case r.ClaimAloneMS == nil || *r.ClaimAloneMS <= 0 || r.Heartbeats <= 0:
		open = append(open, "nothing was measured alone, or no lease was renewed")
	case r.ClaimMS <= 0:
		open = append(open, "claims took no time")
	case late && r.ExtraRuns < 1:
		open = append(open, "nobody ran beside the late agent")
	case r.Scenario == "base" && (r.CrashedJobFinishedAfter == nil || r.TakeoverAfterLeaseEnd == nil):
		open = append(open, "nobody took the crashed agent's job over")
	}
	return open
}

func TestEveryModeOfEveryScenarioIsRaced(t *testing.T) {
	s := Defaults()
	s.Scenarios, s.Trials = Scenarios(), 2
	raced := map[string]int{}
	for _, task := range (&simulation{s: s}).plan(&Report{trials: map[string][]*outcome{}}) {
		raced[outcomesKey(task.sc.name, task.mode)]++
	}
	for key, n := range raced {
		if n != s.Trials {
			t.Errorf("%s is raced %d times, want %d", key, n, s.Trials)
		}
	}
	if want := 17; len(raced) != want {
		t.Errorf("raced %d modes in all scenarios, want %d: %v", len(raced), want, raced)
	}
}

// checkJSON pins the keys that scripts read.
func checkJSON(t *testing.T, report *Report) {
	t.Helper()
	b, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Settings map[string]any   `json:"settings"`
		Results  []map[string]any `json:"results"`
	}
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"claim_alone_ms_per_job", "claim_ms_per_job", "crashed_job_finished_after_ms", "duplicated_jobs_per_trial", "extra_runs_per_trial", "heartbeats_per_job", "late_results_accepted",
		"late_results_refused_per_trial", "lost_races_per_trial", "mode", "reads_per_job", "scenario", "takeover_after_lease_end_ms", "trials",
		"trials_with_duplicates", "unfinished_per_trial", "wall_ms_per_trial", "writes_per_job",
	}
	if keys := slices.Sorted(maps.Keys(got.Results[0])); !slices.Equal(keys, want) {
		t.Errorf("got keys %v, want %v", keys, want)
	}
	for _, key := range []string{"seed", "versions", "trials", "agents", "jobs", "time_scale", "parallel", "scenarios", "modes"} {
		if _, ok := got.Settings[key]; !ok {
			t.Errorf("settings have no %q: %v", key, got.Settings)
		}
	}
}

// checkPage looks whether every result and its timeline reach the page.
func checkPage(t *testing.T, report *Report) {
	t.Helper()
	p := report.page()
	if n := len(report.Results); len(p.Results) != n || len(p.Timelines) != n || len(p.Distributions) == 0 {
		t.Errorf("the page has %d results, %d timelines, %d distributions for %d results", len(p.Results), len(p.Timelines), len(p.Distributions), len(report.Results))
	}
	for _, r := range p.Results {
		if len(r.Figures) != len(p.Measures) {
			t.Errorf("%s, %s: %d figures for %d measures", r.Scenario, r.Mode, len(r.Figures), len(p.Measures))
		}
	}
	for _, line := range p.Timelines {
		spans := 0
		for _, lane := range line.Lanes {
			spans += len(lane.Spans)
		}
		if spans == 0 || len(line.Marks) == 0 {
			t.Errorf("%s, %s: %d spans, %d marks", line.Scenario, line.Mode, spans, len(line.Marks))
		}
		for _, m := range line.Marks {
			if m.Kind == "" {
				t.Errorf("%s, %s: a mark of no kind: %+v", line.Scenario, line.Mode, m)
			}
		}
	}
	for _, write := range []func(io.Writer) error{report.WriteHTML, report.WriteSVG} {
		var page bytes.Buffer
		if err := write(&page); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(page.String(), "over after"); n < len(p.Timelines) {
			t.Errorf("%d ends of timelines are drawn, want %d", n, len(p.Timelines))
		}
	}
}

var record = flag.String("record", "", "race once in each way and write the timelines to `FILE`")

// TestRecordRace makes what the picture in README.md is drawn from: see make pictures.
func TestRecordRace(t *testing.T) {
	if *record == "" {
		t.Skip("it records with -record FILE")
	}
	s := Defaults()
	s.Trials, s.Parallel, s.Seed = 1, 1, 3
	report, err := raceOn(t.Context(), etcdtest.Shared(t).Endpoints()[0], s, func(Progress) {})
	if err != nil {
		t.Fatal(err)
	}
	page := report.page()
	b, err := json.MarshalIndent(page.Timelines, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*record, append(b, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	s := Defaults()
	s.Trials, s.TimeScale = 2, 4
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("enough")
	etcd := etcdtest.Shared(t)
	written := etcd.Client(t).Watch(ctx, allRoots, clientv3.WithPrefix())
	var watching sync.WaitGroup
	watching.Go(func() {
		<-written // in the middle of it
		cancel(stop)
	})
	defer watching.Wait()
	defer cancel(nil)
	if _, err := raceOn(ctx, etcd.Endpoints()[0], s, func(Progress) {}); !errors.Is(err, stop) {
		t.Errorf("got %v, want %v", err, stop)
	}
}

func TestChaptersSayWhatTheyFound(t *testing.T) {
	s := Defaults()
	some := 700.0
	for _, ch := range chapters(s) {
		sc, ok := scenarioNamed(ch.scenario)
		if !ok {
			t.Fatalf("no scenario %q", ch.scenario)
		}
		results := map[Mode]Result{}
		for _, m := range ch.modes {
			if !slices.Contains(sc.modes, m) {
				t.Errorf("scenario %s has no mode %s", ch.scenario, m)
			}
			results[m] = resultOf(sc, m, []*outcome{{duplicated: 15, lateRefused: 1, struckFinishedMS: []float64{some}}})
		}
		for _, text := range []string{ch.before, ch.after(results)} {
			if text == "" || strings.Contains(text, "%!") || strings.Contains(text, "NaN") {
				t.Errorf("%s says %q", ch.scenario, text)
			}
		}
	}
}
