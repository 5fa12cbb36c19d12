package top

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
)

// queuesBody is the screen that one begins with: sums, queues, workers, events.
func (m *Model) queuesBody(rows int) []line {
	all := m.sums()
	rows -= len(all)
	if m.width >= wideEnough {
		return append(all, m.wideBody(rows)...)
	}
	workers := m.workers()
	wants := []int{1 + max(len(m.look.Queues), 1), 1 + max(len(workers), 1), rows}
	got := share(rows, []int{4, 4, 4}, wants)
	all = append(all, m.queuesPane(m.width, got[0])...)
	all = append(all, m.workersPane(workers, m.width, got[1])...)
	return append(all, m.eventsPane(got[2])...)
}

// wideBody has the workers beside the queues.
func (m *Model) wideBody(rows int) (all []line) {
	left := max(72, m.width*55/100)
	workers := m.workers()
	upper := share(rows, []int{6, 5}, []int{1 + max(len(m.look.Queues), len(workers), 1), rows})
	queues := m.queuesPane(left, upper[0])
	beside := m.workersPane(workers, m.width-left-3, upper[0])
	for i := range max(len(queues), len(beside)) {
		l := line{{strings.Repeat(" ", left), plain}}
		if i < len(queues) {
			l = line{{pad(left, queues[i][0].text), queues[i][0].tone}}
		}
		l = append(l, span{" │ ", heading})
		if i < len(beside) {
			l = append(l, beside[i]...)
		}
		all = append(all, l)
	}
	return append(all, m.eventsPane(upper[1])...)
}

// sums is what is in all queues together.
func (m *Model) sums() []line {
	var all Queue
	paused, oldest := 0, ""
	for _, q := range m.look.Queues {
		all.Ready, all.Scheduled, all.Retry, all.Dead = all.Ready+q.Ready, all.Scheduled+q.Scheduled, all.Retry+q.Retry, all.Dead+q.Dead
		all.Claimed, all.Rate = all.Claimed+q.Claimed+q.Orphan, all.Rate+q.Rate
		if q.Paused {
			paused++
		}
		if !q.Oldest.IsZero() && (all.Oldest.IsZero() || q.Oldest.Before(all.Oldest)) {
			all.Oldest, oldest = q.Oldest, "   oldest "+m.age(q.Oldest)
		}
	}
	jobs := fmt.Sprintf("JOBS %d ready  %d claimed  %d retry  %d dead", all.Ready, all.Claimed, all.Retry, all.Dead)
	if all.Scheduled > 0 {
		jobs += fmt.Sprintf("  %d scheduled", all.Scheduled)
	}
	queues := fmt.Sprintf("QUEUES %d", len(m.look.Queues))
	if paused > 0 {
		queues += fmt.Sprintf(" (%d paused)", paused)
	}
	live, lost, busy, concurrency := 0, 0, 0, 0
	for _, w := range m.look.Workers {
		switch {
		case w.Lost:
			lost++
		case len(w.Queues) > 0:
			live, busy, concurrency = live+1, busy+w.Busy, concurrency+w.Concurrency
		}
	}
	workers := fmt.Sprintf("WORKERS %d live", live)
	if lost > 0 {
		workers += fmt.Sprintf(", %d LOST", lost)
	}
	return []line{
		lineOf(plain, "%s", jobs+oldest),
		lineOf(plain, "%s   %s   %d busy, concurrency %d", queues, workers, busy, concurrency),
		lineOf(plain, "DONE %s", m.throughput(all.Rate)),
	}
}

// throughput is the rate of all queues, and since when it is counted.
func (m *Model) throughput(recent float64) string {
	if !m.live {
		return fmt.Sprintf("%.1f/s in the last 5m", recent)
	}
	since := "since "
	if m.gap {
		since = "some was missed; since "
	}
	return fmt.Sprintf("%.1f/s %s %s%s", m.total.perSecond(m.now, m.began), m.total.bars(m.now, m.began), since, m.began.Format(time.TimeOnly))
}

// queuesPane is the queues, the chosen one marked.
func (m *Model) queuesPane(width, rows int) []line {
	name := 18
	if width < 80 {
		name = 16
	}
	trend := width >= 84
	cells := func(cells ...any) string {
		if !trend {
			cells = slices.Delete(cells, 14, 16)
		}
		return padded(cells...)
	}
	head := cells(name, "QUEUE", -6, "READY", -7, "CLAIMED", -5, "RETRY", -5, "DEAD", -6, "OLDEST", -6, "DONE/s", buckets, "TREND", 4, "BUSY")
	all := []line{lineOf(heading, "%s", "  "+head)}
	if len(m.look.Queues) == 0 {
		return append(all, lineOf(plain, "  none yet: leasectl enqueue QUEUE PAYLOAD makes one"))
	}
	from, to := window(len(m.look.Queues), m.index(), rows-1)
	for _, q := range m.look.Queues[from:to] {
		rate, trend := q.Rate, ""
		if m.live {
			rate = 0
			if r := m.rates[q.Name]; r != nil {
				rate, trend = r.perSecond(m.now, m.began), r.bars(m.now, m.began)
			}
		}
		text := cells(name, q.Name, -6, short(q.Ready), -7, short(q.Claimed+q.Orphan), -5, short(q.Retry), -5, short(q.Dead),
			-6, m.age(q.Oldest), -6, fmt.Sprintf("%.1f", rate), buckets, trend, 0, "")
		mark, t := "  ", plain
		if q.Paused {
			t = warn
		}
		if q.Name == m.queue {
			mark, t = "> ", chosen
		}
		text = mark + text
		all = append(all, lineOf(t, "%s%s", text, m.busyText(q, width-ansi.StringWidth(text))))
	}
	return all
}

// busyText is how much of the concurrency is used, or that nothing is claimed.
func (m *Model) busyText(q Queue, width int) string {
	used := fmt.Sprintf("%d/%d", q.Busy, q.Concurrency)
	switch {
	case q.Paused:
		return strings.TrimRight("PAUSED "+m.age(q.PausedAt), " ")
	case q.Concurrency == 0 && q.Busy == 0:
		return "nobody"
	case q.Concurrency == 0:
		return fmt.Sprintf("%d/-", q.Busy)
	}
	return strings.TrimLeft(bar(q.Busy, q.Concurrency, min(width-len(used)-1, 10))+" "+used, " ")
}

// workers are those of the chosen queue and those that are lost, these first.
func (m *Model) workers() (shown []Worker) {
	for _, w := range m.look.Workers {
		if w.Lost {
			shown = append(shown, w)
		}
	}
	for _, w := range m.look.Workers {
		if !w.Lost && slices.Contains(w.Queues, m.queue) {
			shown = append(shown, w)
		}
	}
	return shown
}

func (m *Model) workersPane(workers []Worker, width, rows int) []line {
	name := max(min(width/4, 24), 14)
	job := max(width-name-21, 8)
	all := []line{lineOf(heading, "%s", padded(name, "  WORKER", -7, "BUSY", -5, "TTL", job, "JOB", -5, "RUN"))}
	if len(workers) == 0 {
		return append(all, lineOf(plain, "  nobody works the chosen queue"))
	}
	shown := len(workers)
	if shown > rows-1 {
		shown = max(rows-2, 0) // the last row tells of the others
	}
	for _, w := range workers[:shown] {
		all = append(all, m.workerLine(w, name, job))
	}
	if more := len(workers) - shown; more > 0 {
		all = append(all, lineOf(heading, "  and %d more: leasectl workers ls", more))
	}
	return all
}

func (m *Model) workerLine(w Worker, name, width int) line {
	busy, ttl, t := fmt.Sprintf("%d/%d", w.Busy, w.Concurrency), m.cfg.Age(w.TTLLeft), plain
	switch {
	case w.Lost:
		busy, ttl, t = "LOST", "-", bad
	case w.Concurrency == 0:
		busy = fmt.Sprintf("%d/-", w.Busy)
	}
	job, run := "-", ""
	if j, ok := m.running[w.Session]; ok && w.Busy > 0 {
		job, run = strings.TrimSpace(j.ID+" "+j.Kind), m.age(j.Claimed)
	}
	return lineOf(t, "%s", padded(name, "  "+w.Name, -7, busy, -5, ttl, width, job, -5, run))
}

// eventsPane is what happened last, the newest first.
func (m *Model) eventsPane(rows int) []line {
	all := []line{lineOf(heading, "EVENTS")}
	switch {
	case !m.live:
		return append(all, lineOf(plain, "  not watched: one look only"))
	case len(m.events) == 0:
		return append(all, lineOf(plain, "  none since %s", m.began.Format(time.TimeOnly)))
	}
	for _, e := range m.events[:max(min(len(m.events), rows-1), 0)] {
		at, t := "--:--:--", plain // nobody noted when: a deletion, the end of a session
		if !e.Time.IsZero() {
			at = e.Time.Format(time.TimeOnly)
		}
		switch e.Type {
		case "FENCED", "dead", "session-ended", "unreadable":
			t = bad
		case "failed", "lost", "reclaimed", "paused":
			t = warn
		case "done":
			t = good
		}
		text := e.Type + " " + e.About
		for _, more := range []string{e.Actor, e.Detail} {
			if more != "" {
				text += "  " + more
			}
		}
		if e.Token != "" {
			text += "  token " + e.Token
		}
		all = append(all, line{{"  " + at + " ", plain}, {text, t}})
	}
	return all
}
