package simulate

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
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
