package simulate

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

func TestSameSeedSamePlan(t *testing.T) {
	for _, scenario := range Scenarios() {
		for trial := range 20 {
			a, b := newPlan(Defaults(), scenario, trial), newPlan(Defaults(), scenario, trial)
			if !reflect.DeepEqual(a, b) {
				t.Fatalf("%s, trial %d: got two plans from one seed:\n%+v\n%+v", scenario, trial, a, b)
			}
		}
	}
}

func TestPlanDependsOnSeedAndTrialOnly(t *testing.T) {
	s := Defaults()
	first := newPlan(s, "base", 0)
	if reflect.DeepEqual(first, newPlan(s, "base", 1)) {
		t.Error("two trials have one plan")
	}
	other := s
	other.Seed++
	if reflect.DeepEqual(first, newPlan(other, "base", 0)) {
		t.Error("two seeds give one plan")
	}
	// What does not decide about the jobs must not move them: the modes are raced on
	// the same lengths, and so is a run that has more trials at a time.
	same := s
	same.Parallel, same.Trials, same.TimeScale, same.Modes = 1, 3, 2, []Mode{Claim}
	if got := newPlan(same, "base", 0); !reflect.DeepEqual(got, first) {
		t.Errorf("got another plan for other trials, modes and scale:\n%+v\n%+v", got, first)
	}
	slow := s
	slow.Gap, slow.Jitter = Range{time.Second, time.Minute}, time.Second
	if got := newPlan(slow, "base", 0); !slices.Equal(got.lengths, first.lengths) {
		t.Errorf("got other lengths with other gaps and starts: %v, want %v", got.lengths, first.lengths)
	}
	more := s
	more.Agents = 8
	if got := newPlan(more, "base", 0); !slices.Equal(got.lengths, first.lengths) {
		t.Errorf("got other lengths with more agents: %v, want %v", got.lengths, first.lengths)
	}
}

// TestPlanIsPinned fails when a change makes other plans of the seeds that people
// have noted.
func TestPlanIsPinned(t *testing.T) {
	p := newPlan(Defaults(), "base", 0)
	got := []time.Duration{p.lengths[0], p.lengths[29], p.gaps[0][0], p.gaps[2][29], p.starts[1], p.linger, p.restart}
	want := []time.Duration{265741329, 166730908, 24098616, 44674459, 8467986, 66429578, 52201612}
	if !slices.Equal(got, want) || p.poisoned != 5 || p.doomed != 7 {
		t.Errorf("got %d, poisoned %d, doomed %d; want %d, 5, 7", got, p.poisoned, p.doomed, want)
	}
}

func TestPlanKeepsTheBounds(t *testing.T) {
	s := Defaults()
	within := func(what string, d, least, most time.Duration) {
		t.Helper()
		if d < least || d > most {
			t.Errorf("%s is %v, want %v to %v", what, d, least, most)
		}
	}
	for trial := range 200 {
		p := newPlan(s, "base", trial)
		if len(p.lengths) != s.Jobs || len(p.gaps) != s.Agents || len(p.starts) != s.Agents {
			t.Fatalf("got %d lengths, %d rows of gaps, %d starts", len(p.lengths), len(p.gaps), len(p.starts))
		}
		for _, d := range p.lengths {
			within("a job's length", d, 50*time.Millisecond, 300*time.Millisecond)
		}
		for _, gaps := range p.gaps {
			if len(gaps) != s.Jobs {
				t.Fatalf("got %d gaps, want one per job", len(gaps))
			}
			for _, d := range gaps {
				within("a gap", d, 10*time.Millisecond, 60*time.Millisecond)
			}
		}
		for _, d := range p.starts {
			within("a start", d, 0, 20*time.Millisecond)
		}
		if p.poisoned < 0 || p.poisoned >= s.Jobs {
			t.Errorf("job %d is poisoned, of %d", p.poisoned, s.Jobs)
		}
	}
}

func TestLongJobsOutlastTheirLease(t *testing.T) {
	p, plain := newPlan(Defaults(), "long", 3), newPlan(Defaults(), "base", 3)
	long := 0
	for i, d := range p.lengths {
		if d > Defaults().Job.Most {
			long++
			if d < 2*Defaults().Lease || d > 4*Defaults().Lease {
				t.Errorf("job %d takes %v, want 2 to 4 leases", i, d)
			}
		} else if i%longEvery == 0 {
			t.Errorf("job %d is short: %v", i, d)
		}
	}
	if want := len(plain.lengths) / longEvery; long != want {
		t.Errorf("got %d long jobs, want %d", long, want)
	}
}
