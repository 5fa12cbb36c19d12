package status

import (
	"fmt"
	"strings"
	"time"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/output"
)

func printStatus(a *cli.App, format string, st statusItem) error {
	switch format {
	case output.JSON:
		return output.PrintJSON(a.Out, st)
	case output.YAML:
		return output.PrintYAML(a.Out, st)
	}
	for _, line := range st.lines(time.Now()) {
		if err := a.PrintLine(line); err != nil {
			return err
		}
	}
	return nil
}

// lines is the screen.
func (st statusItem) lines(now time.Time) []string {
	context := ""
	if st.Context != "" {
		context = "CONTEXT " + st.Context + "   "
	}
	lines := []string{fmt.Sprintf("%sENDPOINT %s   ROOT %s", context, st.Etcd.text(), st.Root)}
	if st.Verified {
		lines = append(lines, st.queueLine(now), st.workerLine(now), "LAST 5m  "+st.Recent.Text(now))
	}
	wide := 0
	for _, p := range st.Problems {
		wide = max(wide, len(p.Message))
	}
	for _, p := range st.Problems {
		lines = append(lines, fmt.Sprintf("! %s %-*s   run: %s", p.Code, wide, p.Message, p.Run))
	}
	for i := range lines {
		lines[i] = escape.Text(lines[i])
	}
	return lines
}

func (st statusItem) queueLine(now time.Time) string {
	paused := 0
	for _, q := range st.Queues {
		if q.Paused {
			paused++
		}
	}
	j := st.Jobs
	line := fmt.Sprintf("QUEUES %d", len(st.Queues))
	if paused > 0 {
		line += fmt.Sprintf(" (%d paused)", paused)
	}
	line += fmt.Sprintf("   JOBS %d ready  %d claimed  %d retry  %d dead", j.Ready, j.Claimed, j.Retry, j.Dead)
	if j.Scheduled > 0 {
		line += fmt.Sprintf("  %d scheduled", j.Scheduled)
	}
	if j.Oldest != nil {
		line += fmt.Sprintf("   OLDEST %s (%s)", output.Age(now.Sub(*j.Oldest)), j.OldestQueue)
	}
	return line
}

func (st statusItem) workerLine(now time.Time) string {
	w := st.Workers
	line := fmt.Sprintf("WORKERS %d live", w.Live)
	if w.Lost > 0 {
		line += fmt.Sprintf(", %d LOST", w.Lost)
	}
	line += fmt.Sprintf(" / %d busy, concurrency %d", w.Busy, w.Concurrency)
	var leaders []string
	for _, l := range st.Leaders {
		gone := ""
		if l.Gone {
			gone = " gone"
		}
		leaders = append(leaders, fmt.Sprintf("%s=%s (%s%s)", l.Name, keyspace.IdentityOf(l.Owner), strings.TrimSuffix(output.Ago(l.Since, now), " ago"), gone))
	}
	if leaders == nil {
		leaders = []string{"none"}
	}
	return line + "      LEADERS " + strings.Join(leaders, "  ")
}
