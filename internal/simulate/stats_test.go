package simulate

import (
	"math"
	"testing"
	"time"
)

func TestMean(t *testing.T) {
	if got := mean(nil); got != nil {
		t.Errorf("mean of nothing is %v, want nil", *got)
	}
	if got := mean([]float64{0}); got == nil || *got != 0 {
		t.Errorf("mean of 0 is %v, want 0", got)
	}
	if got := mean([]float64{1, 2, 6}); *got != 3 {
		t.Errorf("got %v, want 3", *got)
	}
}

func TestResultIsMadeOfAllTrials(t *testing.T) {
	sc := base()
	trials := []*outcome{
		{duplicated: 2, extraRuns: 3, struckFinishedMS: []float64{100}, takeoverMS: []float64{10, 20}, claimMS: 1, wallMS: 1000, lostRaces: 1},
		{lateRefused: 1, lateAccepted: 2, unfinished: 1, takeoverMS: []float64{60}, claimMS: 3, wallMS: 3000},
	}
	r := resultOf(sc, Claim, trials)
	want := Result{
		Scenario: "base", Mode: Claim, Trials: 2, TrialsWithDuplicates: 1, DuplicatedJobs: 1, ExtraRuns: 1.5, Unfinished: 0.5,
		ClaimMS: 2, LostRaces: 0.5, LateRefused: 0.5, LateAccepted: 2, WallMS: 2000,
	}
	if *r.CrashedJobFinishedAfter != 100 || *r.TakeoverAfterLeaseEnd != 30 {
		t.Errorf("got crashed after %v, takeover %v; want 100, 30: only what was measured counts", *r.CrashedJobFinishedAfter, *r.TakeoverAfterLeaseEnd)
	}
	r.CrashedJobFinishedAfter, r.TakeoverAfterLeaseEnd = nil, nil
	if r.Details != nil {
		t.Errorf("got details %v of a scenario that has none", r.Details)
	}
	if r.Scenario != want.Scenario || r.TrialsWithDuplicates != want.TrialsWithDuplicates || r.DuplicatedJobs != want.DuplicatedJobs ||
		r.ExtraRuns != want.ExtraRuns || r.Unfinished != want.Unfinished || r.ClaimMS != want.ClaimMS || r.LostRaces != want.LostRaces ||
		r.LateRefused != want.LateRefused || r.LateAccepted != want.LateAccepted || r.WallMS != want.WallMS {
		t.Errorf("got  %+v\nwant %+v", r, want)
	}
}

func TestFailedNamesEveryBrokenPromise(t *testing.T) {
	tests := []struct {
		name string
		mode Mode
		o    outcome
		fail bool
	}{
		{"clean", Claim, outcome{}, false},
		{"a duplicate", Claim, outcome{duplicated: 1}, true},
		{"an unfinished job", Dispatch, outcome{unfinished: 1}, true},
		{"a late result accepted", Claim, outcome{lateAccepted: 1}, true},
		{"naive promises nothing", Naive, outcome{duplicated: 1, unfinished: 1, lateAccepted: 1}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			trials := []*outcome{{}, &tt.o}
			r := resultOf(base(), tt.mode, trials)
			report := Report{Results: []Result{r}, Checks: checksOf(base(), &r, trials)}
			if err := report.Failed(); (err != nil) != tt.fail {
				t.Errorf("got error %v, want one: %v", err, tt.fail)
			}
		})
	}
}

func TestDetails(t *testing.T) {
	o := &outcome{effects: effects{doubled: 0, lower: 1, again: 2}}
	r := resultOf(outsideStore(), Claim, []*outcome{o, {effects: effects{doubled: 1, lower: 2}}})
	if got := r.Details["effects_doubled"]; got != 1 {
		t.Errorf("got %v effects doubled, want 1: the sum", got)
	}
	if got := r.Details["lower_tokens_refused_per_trial"]; got != 1.5 {
		t.Errorf("got %v lower tokens refused a trial, want 1.5: the mean", got)
	}
	if got, want := r.DetailText(), "effects doubled 1, effects missing 0, lower tokens refused 1.5, repeated effects ignored 1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := resultOf(poison(), Naive, []*outcome{o}).Details; got != nil {
		t.Errorf("naive has details %v: it buries nothing", got)
	}
}

func TestTimeLeft(t *testing.T) {
	if got := timeLeft(Progress{Total: 10, Running: 4, Elapsed: time.Minute}); got != 0 {
		t.Errorf("got %v left before any trial is done, want 0: nobody can know", got)
	}
	if got := timeLeft(Progress{Done: 4, Running: 2, Total: 10, Elapsed: 50 * time.Second}); math.Abs(float64(got-50*time.Second)) > float64(time.Millisecond) {
		t.Errorf("got %v left of half the trials, want 50s", got)
	}
	if got := timeLeft(Progress{Done: 10, Total: 10, Elapsed: time.Minute}); got != 0 {
		t.Errorf("got %v left at the end, want 0", got)
	}
}

func TestPublishedFiguresAreForTheirOwnSettings(t *testing.T) {
	r := Report{Settings: Defaults().shown()}
	for _, m := range Modes() {
		p, ok := r.Published("base", m)
		if !ok || p.Trials != 100 || p.DuplicatedJobs == nil || p.ClaimMS == nil {
			t.Errorf("%s: got %+v, %v", m, p, ok)
		}
	}
	if _, ok := r.Published("freeze", Claim); ok {
		t.Error("there are published figures of freeze")
	}
	r.Settings.Agents = 4
	if _, ok := r.Published("base", Claim); ok {
		t.Error("the figures of 3 agents stand beside those of 4")
	}
}
