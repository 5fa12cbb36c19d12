package queue

import (
	"testing"
	"time"

	"github.com/leasekit/leasekit/internal/job"
)

// The settings win, but for a process that asks for less.
func TestWhoeverKeepsLessCounts(t *testing.T) {
	for _, tc := range []struct {
		name string
		own  job.Settings
		set  job.Settings
		want kept
	}{
		{"nobody says anything", job.Settings{}, job.Settings{}, kept{time.Hour, 10_000, 64 << 20}},
		{"the process does", job.Settings{Retention: 2 * time.Hour, RetainJobs: 20_000, RetainBytes: 1 << 30}, job.Settings{}, kept{2 * time.Hour, 20_000, 1 << 30}},
		{"the queue does, more than the default", job.Settings{}, job.Settings{Retention: 24 * time.Hour, RetainJobs: 1 << 20, RetainBytes: 1 << 30}, kept{24 * time.Hour, 1 << 20, 1 << 30}},
		{"the queue does, less", job.Settings{}, job.Settings{Retention: time.Minute, RetainJobs: 3, RetainBytes: 1}, kept{time.Minute, 3, 1}},
		{"both do, each less of something", job.Settings{Retention: time.Minute, RetainJobs: 20_000, RetainBytes: 7}, job.Settings{Retention: time.Hour, RetainJobs: 3, RetainBytes: 9}, kept{time.Minute, 3, 7}},
	} {
		if got := keep(tc.own, tc.set); got != tc.want {
			t.Errorf("%s: got %+v, want %+v", tc.name, got, tc.want)
		}
	}
}
