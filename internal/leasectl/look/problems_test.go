package look

import (
	"strings"
	"testing"
	"time"
)

// The problems of a queue, each with the command that helps.
func TestProblemsNameWhatHelps(t *testing.T) {
	now := time.Now()
	long, short := now.Add(-26*time.Hour), now.Add(-time.Hour)
	for name, tt := range map[string]struct {
		q    Queue
		want string // CODE MESSAGE | RUN
	}{
		"calm":         {Queue{Name: "q", Ready: 1, Workers: 1, Oldest: &short}, ""},
		"orphan":       {Queue{Name: "q/r", Orphan: 1, orphans: []string{"a"}}, "J1 1 claim by a gone session (job q%2Fr/a) | leasectl doctor --fix"},
		"orphans":      {Queue{Name: "q", Orphan: 5, orphans: []string{"a", "b", "c", "d"}}, "J1 5 claims by gone sessions (jobs q/a, q/b, q/c, ...) | leasectl doctor --fix"},
		"backlog":      {Queue{Name: "a b", Ready: 2, Oldest: &short}, "Q1 queue a%20b has 2 ready jobs, the oldest for 60m, and nobody who works it | leasectl work 'a b' -- CMD"},
		"by script":    {Queue{Name: "q", Ready: 2, Claimed: 1, Oldest: &short}, ""},
		"paused":       {Queue{Name: "q", Paused: true, PausedAt: &short, Ready: 2, Oldest: &short}, ""},
		"paused long":  {Queue{Name: "q", Paused: true, PausedAt: &long, PausedBy: "ana", PausedWhy: "db"}, `Q2 queue q paused 26h by ana ("db") | leasectl queues resume q`},
		"paused, when": {Queue{Name: "q", Paused: true, PausedBy: "ana"}, ""},
		"newer":        {Queue{Name: "q", Unreadable: 3, newer: 3}, "J7 3 records of queue q newer than this program | use the leasectl of that version, and upgrade the workers of q"},
		"both":         {Queue{Name: "q", Unreadable: 3, newer: 1}, "J2 2 records of queue q cannot be read | leasectl doctor --fix\nJ7 1 record of queue q newer than this program | use the leasectl of that version, and upgrade the workers of q"},
		"unreadable":   {Queue{Name: "q", Unreadable: 1}, "J2 1 record of queue q cannot be read | leasectl doctor --fix"},
	} {
		var got []string
		for _, p := range Problems([]Queue{tt.q}, now) {
			got = append(got, p.Code+" "+p.Message+" | "+p.Run)
		}
		if text := strings.Join(got, "\n"); text != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, text, tt.want)
		}
	}
}
