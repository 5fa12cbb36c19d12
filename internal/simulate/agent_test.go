package simulate

import "testing"

func TestAFaultIsMetOnceAndNotTooEarly(t *testing.T) {
	a := &agent{index: victim}
	for ordinal, want := range []bool{1: false, 2: false, 3: false, 4: true, 5: false} {
		if ordinal == 3 {
			continue // the third run did not get so far
		}
		if got := a.isVictim(ordinal); got != want && ordinal > 0 {
			t.Errorf("run %d: got %v, want %v", ordinal, got, want)
		}
	}
	if b := (&agent{index: victim + 1}); b.isVictim(victimsRun) {
		t.Error("another agent meets agent 2's fault")
	}
}
