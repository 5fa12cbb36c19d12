package simulate

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestDefaultsAreValid(t *testing.T) {
	if err := Defaults().Validate(); err != nil {
		t.Error(err)
	}
}

func TestValidateNamesSettingAndWayOut(t *testing.T) {
	tests := []struct {
		setting string
		edit    func(*Settings)
		says    string
	}{
		{"agents", func(s *Settings) { s.Agents = 0 }, "2 to 64"},
		{"agents", func(s *Settings) { s.Agents = 1 }, "agent 2 meets the fault"},
		{"trials", func(s *Settings) { s.Trials = -1 }, "1 to"},
		{"jobs", func(s *Settings) { s.Jobs = 8 }, "want 9"},
		{"parallel", func(s *Settings) { s.Parallel = 0 }, "1 to"},
		{"mode", func(s *Settings) { s.Modes = []Mode{"wild"} }, "naive, claim, dispatch"},
		{"mode", func(s *Settings) { s.Modes = []Mode{Claim, Claim} }, "twice"},
		{"mode", func(s *Settings) { s.Scenarios, s.Modes = []string{"failover"}, []Mode{Naive} }, "is about dispatch"},
		{"scenario", func(s *Settings) { s.Scenarios = []string{"flood"} }, "base, freeze"},
		{"scenario", func(s *Settings) { s.Scenarios = []string{"base", "base"} }, "twice"},
		{"scenario", func(s *Settings) { s.Scenarios = nil }, "base, freeze"},
		{"job", func(s *Settings) { s.Job = Range{} }, "want 1ms to 10s"},
		{"job", func(s *Settings) { s.Job = Range{2, 1} }, "want 1ms to 10s"},
		{"job", func(s *Settings) { s.Job.Most = 11 * time.Second }, "50ms..11s"},
		{"gap", func(s *Settings) { s.Gap.Least = -1 }, "want 0s to 10s"},
		{"gap", func(s *Settings) { s.Gap.Most = time.Hour }, "want 0s to 10s"},
		{"jitter", func(s *Settings) { s.Jitter = -1 }, "want 0s to 10s"},
		{"lease", func(s *Settings) { s.Lease = 0 }, "want 1ms to 1m0s"},
		{"lease", func(s *Settings) { s.Lease = time.Hour }, "want 1ms to 1m0s"},
		{"time-scale", func(s *Settings) { s.Lease = 300 * time.Millisecond }, "the lease of 300ms becomes 1.2s"},
		{"time-scale", func(s *Settings) { s.TimeScale = 1 }, "whole seconds"},
		{"time-scale", func(s *Settings) { s.TimeScale = 3 }, "1.5s"},
		{"time-scale", func(s *Settings) { s.TimeScale = 0 }, "a number up to"},
		{"time-scale", func(s *Settings) { s.TimeScale = -4 }, "a number up to"},
		{"time-scale", func(s *Settings) { s.TimeScale = math.NaN() }, "a number up to"},
		{"time-scale", func(s *Settings) { s.TimeScale = math.Inf(1) }, "a number up to"},
	}
	for _, tt := range tests {
		s := Defaults()
		tt.edit(&s)
		err := s.Validate()
		var bad *SettingError
		if !errors.As(err, &bad) || bad.Setting != tt.setting || !strings.Contains(err.Error(), tt.says) || bad.Try == "" {
			t.Errorf("got %v, want an error about --%s that says %q and a way out", err, tt.setting, tt.says)
		}
	}
}

// TestWayOutOfALease takes the way out that a lease's error names, for leases of which
// no scale makes whole seconds too.
func TestWayOutOfALease(t *testing.T) {
	for lease, want := range map[time.Duration]string{
		500 * time.Millisecond:    "--time-scale 2",
		300 * time.Millisecond:    "--time-scale 10",
		750 * time.Millisecond:    "--time-scale 4",
		4 * time.Second:           "--time-scale 0.25",
		time.Millisecond:          "--lease 500ms --time-scale 4",
		700001 * time.Microsecond: "--lease 500ms --time-scale 4",
	} {
		s := Defaults()
		s.Lease, s.TimeScale = lease, 0.3
		var bad *SettingError
		if err := s.Validate(); !errors.As(err, &bad) || bad.Try != want {
			t.Errorf("%v: got %v, try %v, want %s", lease, err, bad, want)
			continue
		}
		for fields := strings.Fields(want); len(fields) > 0; fields = fields[2:] {
			var err error
			if fields[0] == "--lease" {
				s.Lease, err = time.ParseDuration(fields[1])
			} else {
				s.TimeScale, err = strconv.ParseFloat(fields[1], 64)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Validate(); err != nil {
			t.Errorf("%v: %s leads to %v", lease, want, err)
		}
	}
}

func TestRangeReadsWhatItWrites(t *testing.T) {
	for _, text := range []string{"50ms..300ms", "200ms", "0s..1m0s", "0s"} {
		var r Range
		if err := r.Set(text); err != nil || r.String() != text {
			t.Errorf("%s: got %v, %v", text, r, err)
		}
	}
	for _, text := range []string{"", "..", "5", "5ms..", "..5ms", "2s..1s", "1s..2s..3s"} {
		r := Range{1, 2}
		if err := r.Set(text); err == nil || r != (Range{1, 2}) {
			t.Errorf("%q: got %v and no error", text, r)
		}
	}
}

// TestPublishedIsOfItsRaceOnly holds the published figures beside the race that they are
// of, in whatever scale and however often it is raced.
func TestPublishedIsOfItsRaceOnly(t *testing.T) {
	for name, edit := range map[string]func(*Settings){
		"scale": func(s *Settings) { s.TimeScale, s.Trials, s.Seed, s.Parallel = 6, 3, 9, 1 },
	} {
		s := Defaults()
		edit(&s)
		if _, ok := (&Report{Settings: s.shown()}).Published("base", Claim); !ok {
			t.Errorf("%s: the race is the published one, and its figures are not shown", name)
		}
	}
	for name, edit := range map[string]func(*Settings){
		"agents": func(s *Settings) { s.Agents = 4 }, "jobs": func(s *Settings) { s.Jobs = 31 },
		"job": func(s *Settings) { s.Job.Most++ }, "gap": func(s *Settings) { s.Gap.Least = 0 },
		"jitter": func(s *Settings) { s.Jitter = 0 }, "lease": func(s *Settings) { s.Lease = time.Second },
	} {
		s := Defaults()
		edit(&s)
		if _, ok := (&Report{Settings: s.shown()}).Published("base", Claim); ok {
			t.Errorf("%s: figures of another race are shown", name)
		}
	}
}

func TestModesOfAScenarioAreItsOwn(t *testing.T) {
	s := Defaults()
	sc, _ := scenarioNamed("failover")
	if got := s.modesOf(sc); !slices.Equal(got, []Mode{Dispatch}) {
		t.Errorf("got %v, want dispatch: nothing else has a dispatcher", got)
	}
	s.Modes = []Mode{Dispatch, Naive}
	if got := s.modesOf(base()); !slices.Equal(got, []Mode{Naive, Dispatch}) {
		t.Errorf("got %v, want naive and dispatch, in the order of results", got)
	}
}
