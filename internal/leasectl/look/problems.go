package look

import (
	"fmt"
	"strings"
	"time"

	"github.com/leasekit/leasekit/internal/doctor"
	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/output"
)

// pausedLong is the time after which a pause looks forgotten.
const pausedLong = 24 * time.Hour

// Problems are the problems that show in what was counted anyway: leasectl doctor knows more.
func Problems(queues []Queue, now time.Time) []Problem {
	problems := []Problem{}
	add := func(code, run, format string, args ...any) {
		problems = append(problems, Problem{code, escape.Text(fmt.Sprintf(format, args...)), run})
	}
	for _, q := range queues {
		name := escape.Shell(q.Name)
		if q.Orphan > 0 {
			add("J1", "leasectl doctor --fix", "%s", orphanText(q))
		}
		if q.Ready > 0 && q.Workers == 0 && q.Claimed == 0 && !q.Paused {
			add("Q1", "leasectl work "+name+" -- CMD", "queue %s has %s, the oldest for %s, and nobody who works it",
				escape.WordCell(q.Name), output.Count(q.Ready, "ready job"), output.SinceOrNil(q.Oldest))
		}
		if q.Paused && q.PausedAt != nil && now.Sub(*q.PausedAt) > pausedLong {
			add("Q2", "leasectl queues resume "+name, "queue %s paused %s by %s%s", escape.WordCell(q.Name), output.Age(now.Sub(*q.PausedAt)), q.PausedBy, output.Why(q.PausedWhy))
		}
		if q.SettingsErr != "" {
			problems = append(problems, problemOf(doctor.BadSettings(q.Name, q.SettingsErr)))
		}
		if n := q.Unreadable - q.newer; n > 0 {
			problems = append(problems, problemOf(doctor.UnreadableRecords(q.Name, n)))
		}
		if q.newer > 0 {
			problems = append(problems, problemOf(doctor.NewerRecords(q.Name, q.newer)))
		}
	}
	return problems
}

// BrokenConfigs are the problems of queues whose config cannot be read, of which nothing is counted.
func BrokenConfigs(queues []string) (problems []Problem) {
	for _, name := range queues {
		problems = append(problems, problemOf(doctor.UnreadableConfig(name)))
	}
	return problems
}

func problemOf(p doctor.Problem) Problem { return Problem{p.Code, p.What, p.Run()} }

func orphanText(q Queue) string {
	jobs := make([]string, 0, 3)
	for _, id := range q.orphans[:min(len(q.orphans), 3)] {
		jobs = append(jobs, cli.JobRef{Queue: q.Name, ID: id}.Text())
	}
	if q.Orphan == 1 {
		return fmt.Sprintf("1 claim by a gone session (job %s)", jobs[0])
	}
	more := ""
	if q.Orphan > len(jobs) {
		more = ", ..."
	}
	return fmt.Sprintf("%d claims by gone sessions (jobs %s%s)", q.Orphan, strings.Join(jobs, ", "), more)
}

// Problem is what somebody should look at, and the command that helps.
type Problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Run     string `json:"run"`
}
