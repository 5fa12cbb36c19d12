// Package look reads what is there to be shown: queues, workers, sessions, their leases, and what is wrong at a glance.
package look

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/workqueue"
)

// Recently is how far back rates and counts of what happened look.
const Recently = 5 * time.Minute

// Queue is a queue as it is printed.
type Queue struct {
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
	Recent     Recent     `json:"recent"`
	Revision   string     `json:"config_revision"`

	Settings Settings `json:"settings"`
	// SettingsErr names the settings that nobody goes by.
	SettingsErr string     `json:"settings_error,omitempty"`
	SetBy       string     `json:"set_by,omitempty"` // the mode or the settings
	SetWhy      string     `json:"set_why,omitempty"`
	SetAt       *time.Time `json:"set_at,omitempty"`

	Set     workqueue.Config `json:"-"`
	claims  map[string]int   // claimed jobs by session
	orphans []string         // some of them
	newer   int              // of the unreadable records, those of a newer program
}

// Recent is what happened since then, as far as it is kept.
type Recent struct {
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

func queueItemOf(s admin.Stats, now time.Time) Queue {
	i := Queue{
		Name: s.Queue, Mode: s.Mode, Paused: s.Paused,
		Ready: s.Jobs[workqueue.StateReady], Scheduled: s.Jobs[workqueue.StateScheduled], Retry: s.Jobs[workqueue.StateRetry],
		Claimed: s.Jobs[workqueue.StateClaimed], Orphan: s.Jobs[workqueue.StateOrphan],
		Done: s.Jobs[workqueue.StateDone], Dead: s.Jobs[workqueue.StateDead], Unreadable: s.Unreadable, newer: s.Newer,
		Oldest: output.TimeOrNil(s.Oldest), Workers: s.Workers, Revision: fmt.Sprint(s.Revision), Recent: recentOf(s, now),
		Settings: settingsItemOf(s.Settings), SetBy: s.SetBy, SetWhy: s.SetWhy, SetAt: output.TimeOrNil(s.SetAt), Set: s.Settings,
		claims: s.Claims, orphans: s.Orphans,
	}
	if s.SettingsErr != nil {
		i.SettingsErr = s.SettingsErr.Error()
	}
	if s.Paused {
		i.PausedBy, i.PausedWhy, i.PausedAt = s.PausedBy, s.PausedWhy, output.TimeOrNil(s.PausedAt)
	}
	return i
}

// givesUp tells whether so many finished jobs are kept that a process may have begun to give up the oldest, unless it was
// started to keep less. Those of two leases may be missing.
func givesUp(s admin.Stats) bool {
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

func recentOf(s admin.Stats, now time.Time) Recent {
	r := s.Recent
	item := Recent{
		Since: r.Since.UTC().Truncate(time.Millisecond), ReachesTo: output.TimeOrNil(r.Reaches), Enqueued: r.Enqueued, Done: r.Done,
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

// ReadQueue counts what is in a queue, and what happened of late.
func ReadQueue(ctx context.Context, a *cli.App, c *connect.Conn, name string) (item Queue, err error) {
	err = countQueues(ctx, a, c, []string{name}, time.Now().Add(-Recently), func(i Queue, err error) error {
		item = i
		return err
	})
	return item, err
}

// ReadQueues reads all queues that are there; broken are those of which the config cannot be read.
func ReadQueues(ctx context.Context, a *cli.App, c *connect.Conn) (items []Queue, broken []string, err error) {
	return ReadQueuesSince(ctx, a, c, time.Now().Add(-Recently))
}

// ReadQueuesSince is ReadQueues; without a time nothing of what happened, nor of what is over.
func ReadQueuesSince(ctx context.Context, a *cli.App, c *connect.Conn, since time.Time) (items []Queue, broken []string, err error) {
	names, err := a.QueueNames(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	err = countQueues(ctx, a, c, names, since, func(i Queue, err error) error {
		switch {
		case cli.Unreadable(err): // it must not hide the others
			a.Notef("warning: %s", exit.Text(err))
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
func countQueues(ctx context.Context, a *cli.App, c *connect.Conn, names []string, since time.Time, take func(Queue, error) error) error {
	now, warned := time.Now(), false
	for s, err := range admin.CountAll(ctx, c.Queues(), names, since) {
		if s.OwnersUnknown && !warned {
			a.Notef("warning: you may not read who is alive, under %s of the root: orphans of queue %s count as claimed", "sessions/", strings.Join(names, ", "))
			warned = true
		}
		if err := take(queueItemOf(s, now), err); err != nil {
			return err
		}
	}
	return nil
}

func countColumn(head string, n func(Queue) int) output.Column[Queue] {
	return output.Column[Queue]{Head: head, Cell: func(i Queue) string { return fmt.Sprint(n(i)) }}
}

// QueueView is how queues are listed.
var QueueView = output.View[Queue]{
	Name: func(i Queue) string { return escape.Ref("queue", i.Name) },
	Columns: []output.Column[Queue]{
		{Head: "NAME", Cell: func(i Queue) string { return escape.NameCell("queue", i.Name) }},
		{Head: "MODE", Cell: func(i Queue) string { return i.Mode }},
		{Head: "PAUSED", Cell: func(i Queue) string { return output.YesNo(i.Paused) }},
		countColumn("READY", func(i Queue) int { return i.Ready }),
		countColumn("CLAIMED", func(i Queue) int { return i.Claimed + i.Orphan }),
		countColumn("RETRY", func(i Queue) int { return i.Retry }),
		countColumn("DEAD", func(i Queue) int { return i.Dead }),
		{Head: "OLDEST", Cell: func(i Queue) string { return output.SinceOrNil(i.Oldest) }},
		{Head: "RATE/s", Cell: func(i Queue) string { return fmt.Sprintf("%.1f", i.Recent.Rate) }},
		{Head: "P95-RUN", Cell: func(i Queue) string { return spanText(i.Recent.RunP95) }},
		countColumn("WORKERS", func(i Queue) int { return i.Workers }),
	},
	Wide: []output.Column[Queue]{
		countColumn("SCHEDULED", func(i Queue) int { return i.Scheduled }),
		countColumn("ORPHAN", func(i Queue) int { return i.Orphan }),
		countColumn("DONE", func(i Queue) int { return i.Done }),
		countColumn("FAILED-5m", func(i Queue) int { return i.Recent.Failed }),
		countColumn("FENCED-5m", func(i Queue) int { return i.Recent.Fenced }),
		{Head: "PAUSED-BY", Cell: func(i Queue) string { return escape.WordCell(i.PausedBy) }},
	},
}

// spanText is a measured time.
func spanText(seconds *float64) string {
	if seconds == nil {
		return ""
	}
	return output.Took(time.Duration(*seconds * float64(time.Second)))
}

// Text is what happened, and how far back that is known.
func (r Recent) Text(now time.Time) string {
	text := fmt.Sprintf("enqueued %d  done %d  reclaimed %d  fenced %d  failed %d", r.Enqueued, r.Done, r.Lost, r.Fenced, r.Failed)
	if r.cut != "" && r.ReachesTo != nil {
		text += fmt.Sprintf("   (and more before %s ago: of finished jobs a process keeps %s)", output.Age(now.Sub(*r.ReachesTo)), r.cut)
	}
	return text
}

// Add adds another queue's. The sum reaches back as far as each of them does.
func (r *Recent) Add(q Recent) {
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
