package simulate

import (
	"testing"
	"time"
)

func at(ms int) time.Time { return time.UnixMilli(1_000_000 + int64(ms)) }

func TestTruthOfAnOrderlyJob(t *testing.T) {
	tr := newTruth(2)
	job := jobID(0)
	tr.claimed(job, "a.1", "7", at(0))
	if late := tr.saved(job, "7", at(10)); late {
		t.Error("a save under the current claim counts as late")
	}
	if tr.duplicated() != 0 || tr.unfinished() != 1 || tr.finished() {
		t.Errorf("got %d duplicated, %d unfinished, finished %v; want 0, 1, false", tr.duplicated(), tr.unfinished(), tr.finished())
	}
	tr.died(jobID(1))
	if tr.unfinished() != 0 || !tr.finished() || tr.buried() != 1 {
		t.Errorf("got %d unfinished, finished %v, %d buried; want 0, true, 1", tr.unfinished(), tr.finished(), tr.buried())
	}
	if !tr.last.Equal(at(10)) {
		t.Errorf("last save at %v, want %v", tr.last, at(10))
	}
}

func TestTruthCountsLateAndDoubleSaves(t *testing.T) {
	tests := []struct {
		name       string
		happens    func(tr *truth, job string)
		late       int
		duplicated int
	}{
		{"superseded claim saves", func(tr *truth, job string) {
			tr.claimed(job, "a.1", "7", at(0))
			tr.claimed(job, "b.1", "9", at(5))
			tr.saved(job, "7", at(10))
		}, 1, 0},
		{"superseded claim saves behind its successor", func(tr *truth, job string) {
			tr.claimed(job, "a.1", "7", at(0))
			tr.claimed(job, "b.1", "9", at(5))
			tr.saved(job, "9", at(10))
			tr.saved(job, "7", at(11))
		}, 1, 1},
		{"one claim saves twice", func(tr *truth, job string) {
			tr.claimed(job, "a.1", "7", at(0))
			tr.saved(job, "7", at(10))
			tr.saved(job, "7", at(11))
		}, 1, 1},
		{"a claim that was given back saves", func(tr *truth, job string) {
			tr.claimed(job, "a.1", "7", at(0))
			tr.opened(job)
			tr.saved(job, "7", at(10))
		}, 1, 0},
		{"nobody's job is no job", func(tr *truth, _ string) {
			tr.claimed("foreign", "a.1", "7", at(0))
			tr.saved("foreign", "8", at(10))
			tr.opened("foreign")
			tr.died("foreign")
		}, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := newTruth(1)
			tt.happens(tr, jobID(0))
			if len(tr.late) != tt.late || tr.duplicated() != tt.duplicated {
				t.Errorf("got %d late, %d duplicated; want %d, %d", len(tr.late), tr.duplicated(), tt.late, tt.duplicated)
			}
		})
	}
}

func TestTruthMeasuresTakeoversFromTheEndOfTheLease(t *testing.T) {
	tr := newTruth(1)
	job := jobID(0)
	tr.claimed(job, "a.1", "7", at(0))
	if over := tr.claimed(job, "x.1", "8", at(1)); over != nil {
		t.Error("a claim beside a live owner counts as a takeover")
	}
	tr.leaseEnded("x.1", at(500))
	over := tr.claimed(job, "b.1", "9", at(530))
	if over == nil || over.after != 30*time.Millisecond || over.from != "x.1" || over.by != "b.1" {
		t.Errorf("got %+v, want a takeover by b.1 from x.1 after 30ms", over)
	}
	tr.leaseEnded("b.1", at(600))
	tr.opened(job) // put off by whoever met the orphan
	if over := tr.claimed(job, "c.1", "11", at(900)); over != nil {
		t.Errorf("got %+v, want no takeover of a job that was open", over)
	}
	if len(tr.takeovers) != 1 || tr.claims != 4 {
		t.Errorf("got %d takeovers of %d claims, want 1 of 4", len(tr.takeovers), tr.claims)
	}
}
