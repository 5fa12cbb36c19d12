package job

import (
	"math"
	"strings"
	"testing"
	"time"
)

// What is set can be read again, and what a newer program put beside or into a setting
// stays there for as long as that setting does not change.
func TestSettingsOfANewerProgramSurvive(t *testing.T) {
	c, err := DecodeConfig([]byte(`{"retention":"1h","backoff":{"initial":"5s","curve":"linear"},"limits":{"gpu":4},"retain_jobs":"many"}`))
	if err != nil {
		t.Fatal(err)
	}
	s, _ := c.Settings()
	s.Retention = 2 * time.Hour
	c.Set(s)
	txn, err := testTxns(t, "/r/").Configure(c, 1)
	if err != nil {
		t.Fatal(err)
	}
	got := string(txn.Then[0].ValueBytes())
	for _, part := range []string{`"retention":"2h0m0s"`, `"backoff":{"initial":"5s","curve":"linear"}`, `"limits":{"gpu":4}`} {
		if !strings.Contains(got, part) {
			t.Errorf("%s is not in %s", part, got)
		}
	}
	if strings.Contains(got, "many") {
		t.Errorf("what nobody can read stays in %s", got)
	}
	for _, want := range []Settings{
		{}, {Retention: MaxTimeout, RetainJobs: maxCount, RetainBytes: maxCount, Backoff: Backoff{MaxTimeout, MaxTimeout, math.MaxFloat64, -math.MaxFloat64}},
		{Retention: time.Second, RetainJobs: 1, RetainBytes: 1, Backoff: Backoff{Initial: 1, Max: 1, Factor: 1, Jitter: 1}},
	} {
		if err := want.Validate(); err != nil {
			t.Fatal(err)
		}
		c.Set(want)
		if got, err := c.Settings(); err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
}

// A config that is mended keeps its settings.
func TestMendedConfigKeepsSettings(t *testing.T) {
	c := SalvagedConfig([]byte(`{"paused":7,"retention":"3h","retain_jobs":[],"limits":1}`))
	s, err := c.Settings()
	if s.Retention != 3*time.Hour || err == nil || string(c.extra["limits"]) != "1" || len(c.extra) != 1 {
		t.Errorf("got %+v, %v, %v", s, err, c.extra)
	}
}
