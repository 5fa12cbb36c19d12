package leasectl

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/leasekit/leasekit/workqueue"
)

// recently is how far back rates and counts of what happened look.
const recently = 5 * time.Minute

// queueItem is a queue as it is printed.
type queueItem struct {
	Name       string     `json:"name"`
	Mode       string     `json:"mode"`
	Paused     bool       `json:"paused"`
	PausedBy   string     `json:"paused_by,omitempty"`
	PausedWhy  string     `json:"paused_why,omitempty"`
	PausedAt   *time.Time `json:"paused_at,omitempty"`
	Ready      int        `json:"ready"`
	Scheduled  int        `json:"scheduled"`
	Retry      int        `json:"retry"`
	Claimed    int        `json:"claimed"`
	Orphan     int        `json:"orphan"`
	Done       int        `json:"done"` // cancelled ones too
	Dead       int        `json:"dead"`
	Unreadable int        `json:"unreadable"`
	Oldest     *time.Time `json:"oldest_ready_at,omitempty"`
	Workers    int        `json:"workers"`
	Recent     recentItem `json:"recent"`
	Revision   string     `json:"config_revision"`

	Settings settingsItem `json:"settings"`
	// SettingsErr names the settings that nobody goes by.
	SettingsErr string     `json:"settings_error,omitempty"`
	SetBy       string     `json:"set_by,omitempty"` // the mode or the settings
	SetWhy      string     `json:"set_why,omitempty"`
	SetAt       *time.Time `json:"set_at,omitempty"`

	set     workqueue.Config
	claims  map[string]int // claimed jobs by session
	orphans []string       // some of them
	newer   int            // of the unreadable records, those of a newer program
}

// recentItem is what happened since then, as far as it is kept.
type recentItem struct {
	Since time.Time `json:"since"`
	// ReachesTo is the end of the oldest finished job that is kept, when that is later than Since: what ended before may
	// be forgotten, and is not counted.
	ReachesTo *time.Time `json:"reaches_to,omitempty"`
	Enqueued  int        `json:"enqueued"`
	Done      int        `json:"done"`
	Cancelled int        `json:"cancelled"`
	Dead      int        `json:"dead"`
	Failed    int        `json:"failed_attempts"`
	Lost      int        `json:"lost_attempts"`
	Fenced    int        `json:"fenced"`
	Rate      float64    `json:"done_per_second"`
	RunP95    *float64   `json:"run_p95_seconds,omitempty"`

	cut string // what a process keeps, where so many are kept that some of those since then may have been given up
}

func queueItemOf(s workqueue.Stats, now time.Time) queueItem {
	i := queueItem{
		Name: s.Queue, Mode: s.Mode, Paused: s.Paused,
		Ready: s.Jobs[workqueue.StateReady], Scheduled: s.Jobs[workqueue.StateScheduled], Retry: s.Jobs[workqueue.StateRetry],
		Claimed: s.Jobs[workqueue.StateClaimed], Orphan: s.Jobs[workqueue.StateOrphan],
		Done: s.Jobs[workqueue.StateDone], Dead: s.Jobs[workqueue.StateDead], Unreadable: s.Unreadable, newer: s.Newer,
		Oldest: timeOrNil(s.Oldest), Workers: s.Workers, Revision: fmt.Sprint(s.Revision), Recent: recentOf(s, now),
		Settings: settingsItemOf(s.Settings), SetBy: s.SetBy, SetWhy: s.SetWhy, SetAt: timeOrNil(s.SetAt), set: s.Settings,
		claims: s.Claims, orphans: s.Orphans,
	}
	if s.SettingsErr != nil {
		i.SettingsErr = s.SettingsErr.Error()
	}
	if s.Paused {
		i.PausedBy, i.PausedWhy, i.PausedAt = s.PausedBy, s.PausedWhy, timeOrNil(s.PausedAt)
	}
	return i
}

// givesUp tells whether so many finished jobs are kept that a process may have begun to give up the oldest, unless it was
// started to keep less. Those of two leases may be missing.
func givesUp(s workqueue.Stats) bool {
	n := cmp.Or(s.Settings.RetainJobs, 10_000)
	return s.Jobs[workqueue.StateDone] >= n-2*min(256, max(n/4, 1))
}

// keptText is how much of what is finished a process keeps.
func keptText(s workqueue.Config) string {
	jobs, size := "10,000", "64 MiB"
	if s.RetainJobs != 0 {
		jobs = strconv.Itoa(s.RetainJobs)
	}
	if s.RetainBytes != 0 {
		size = exactSize(s.RetainBytes)
	}
	return "the last " + jobs + " or " + size
}

func recentOf(s workqueue.Stats, now time.Time) recentItem {
	r := s.Recent
	item := recentItem{
		Since: r.Since.UTC().Truncate(time.Millisecond), ReachesTo: timeOrNil(r.Reaches), Enqueued: r.Enqueued, Done: r.Done,
		Cancelled: r.Cancelled, Dead: r.Dead, Failed: r.Failed, Lost: r.Lost, Fenced: r.Fenced,
	}
	if !r.Reaches.IsZero() && givesUp(s) {
		item.cut = keptText(s.Settings)
	}
	from := r.Since
	if !r.Reaches.IsZero() {
		from = r.Reaches
	}
	// Jobs that ended in the same moment tell no rate: at least a second is taken.
	item.Rate = math.Round(float64(r.Done)/max(now.Sub(from), time.Second).Seconds()*1000) / 1000
	if r.RunP95 > 0 {
		p95 := r.RunP95.Seconds()
		item.RunP95 = &p95
	}
	return item
}

// readQueue counts what is in a queue, and what happened of late.
func readQueue(ctx context.Context, a *app, c *connection, name string) (item queueItem, err error) {
	err = countQueues(ctx, a, c, []string{name}, time.Now().Add(-recently), func(i queueItem, err error) error {
		item = i
		return err
	})
	return item, err
}

// readQueues reads all queues that are there; broken are those of which the config cannot be read.
func readQueues(ctx context.Context, a *app, c *connection) (items []queueItem, broken []string, err error) {
	return readQueuesSince(ctx, a, c, time.Now().Add(-recently))
}

// readQueuesSince is readQueues; without a time nothing of what happened, nor of what is over.
func readQueuesSince(ctx context.Context, a *app, c *connection, since time.Time) (items []queueItem, broken []string, err error) {
	names, err := a.queues(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	err = countQueues(ctx, a, c, names, since, func(i queueItem, err error) error {
		switch {
		case unreadable(err): // it must not hide the others
			a.notef("warning: %s", errorText(err))
			broken = append(broken, i.Name)
			return nil
		case err != nil:
			return err
		}
		items = append(items, i)
		return nil
	})
	return items, broken, err
}

// countQueues counts what is in some queues, until take returns an error.
func countQueues(ctx context.Context, a *app, c *connection, names []string, since time.Time, take func(queueItem, error) error) error {
	now, warned := time.Now(), false
	for s, err := range c.queues().Stats(ctx, names, since) {
		if s.OwnersUnknown && !warned {
			a.notef("warning: you may not read who is alive, under %s of the root: orphans of queue %s count as claimed", "sessions/", strings.Join(names, ", "))
			warned = true
		}
		if err := take(queueItemOf(s, now), err); err != nil {
			return err
		}
	}
	return nil
}

func countColumn(head string, n func(queueItem) int) column[queueItem] {
	return column[queueItem]{head, func(i queueItem) string { return fmt.Sprint(n(i)) }}
}

var queueView = view[queueItem]{
	name: func(i queueItem) string { return refName("queue", i.Name) },
	columns: []column[queueItem]{
		{"NAME", func(i queueItem) string { return nameCell("queue", i.Name) }},
		{"MODE", func(i queueItem) string { return i.Mode }},
		{"PAUSED", func(i queueItem) string { return yesNo(i.Paused) }},
		countColumn("READY", func(i queueItem) int { return i.Ready }),
		countColumn("CLAIMED", func(i queueItem) int { return i.Claimed + i.Orphan }),
		countColumn("RETRY", func(i queueItem) int { return i.Retry }),
		countColumn("DEAD", func(i queueItem) int { return i.Dead }),
		{"OLDEST", func(i queueItem) string { return sinceOrNil(i.Oldest) }},
		{"RATE/s", func(i queueItem) string { return fmt.Sprintf("%.1f", i.Recent.Rate) }},
		{"P95-RUN", func(i queueItem) string { return spanText(i.Recent.RunP95) }},
		countColumn("WORKERS", func(i queueItem) int { return i.Workers }),
	},
	wide: []column[queueItem]{
		countColumn("SCHEDULED", func(i queueItem) int { return i.Scheduled }),
		countColumn("ORPHAN", func(i queueItem) int { return i.Orphan }),
		countColumn("DONE", func(i queueItem) int { return i.Done }),
		countColumn("FAILED-5m", func(i queueItem) int { return i.Recent.Failed }),
		countColumn("FENCED-5m", func(i queueItem) int { return i.Recent.Fenced }),
		{"PAUSED-BY", func(i queueItem) string { return wordCell(i.PausedBy) }},
	},
}

// spanText is a measured time.
func spanText(seconds *float64) string {
	if seconds == nil {
		return ""
	}
	return tookText(time.Duration(*seconds * float64(time.Second)))
}

// text is what happened, and how far back that is known.
func (r recentItem) text(now time.Time) string {
	text := fmt.Sprintf("enqueued %d  done %d  reclaimed %d  fenced %d  failed %d", r.Enqueued, r.Done, r.Lost, r.Fenced, r.Failed)
	if r.cut != "" && r.ReachesTo != nil {
		text += fmt.Sprintf("   (and more before %s ago: of finished jobs a process keeps %s)", age(now.Sub(*r.ReachesTo)), r.cut)
	}
	return text
}

// add adds another queue's. The sum reaches back as far as each of them does.
func (r *recentItem) add(q recentItem) {
	r.Enqueued, r.Done, r.Cancelled, r.Dead = r.Enqueued+q.Enqueued, r.Done+q.Done, r.Cancelled+q.Cancelled, r.Dead+q.Dead
	r.Failed, r.Lost, r.Fenced, r.Rate = r.Failed+q.Failed, r.Lost+q.Lost, r.Fenced+q.Fenced, r.Rate+q.Rate
	if q.ReachesTo != nil && (r.ReachesTo == nil || q.ReachesTo.After(*r.ReachesTo)) {
		r.ReachesTo = q.ReachesTo
	}
	if q.cut != "" && r.cut != "" && q.cut != r.cut {
		q.cut = "what the settings of its queue say"
	}
	r.cut = cmp.Or(q.cut, r.cut)
}
