package look

import (
	"strings"
	"testing"
	"time"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/workqueue"
)

// How far back the numbers reach is said only where finished jobs had to make room for others.
func TestRecentSaysWhatWasCutOnlyWhereSomethingWas(t *testing.T) {
	now := time.Now()
	stats := func(kept int) admin.Stats {
		s := admin.Stats{Jobs: map[workqueue.State]int{workqueue.StateDone: kept}}
		s.Recent.Since, s.Recent.Reaches, s.Recent.Done = now.Add(-Recently), now.Add(-8*time.Second), min(kept, 3)
		return s
	}
	young, full := queueItemOf(stats(3), now), queueItemOf(stats(9_700), now)
	if text := young.Recent.Text(now); !strings.HasSuffix(text, "failed 0") {
		t.Errorf("a young queue: %s", text)
	}
	const cut = "(and more before 8s ago: of finished jobs a process keeps the last 10,000 or 64 MiB)"
	if text := full.Recent.Text(now); !strings.HasSuffix(text, cut) {
		t.Errorf("a queue that gives up jobs: %s", text)
	}
	more := stats(49_700)
	more.Settings = workqueue.Config{RetainJobs: 50_000, RetainBytes: 1 << 30}
	set := queueItemOf(more, now)
	if text := set.Recent.Text(now); !strings.HasSuffix(text, "a process keeps the last 50000 or 1GiB)") {
		t.Errorf("a queue with settings: %s", text)
	}
	more.Jobs[workqueue.StateDone] = 9_700
	if text := queueItemOf(more, now).Recent.Text(now); !strings.HasSuffix(text, "failed 0") {
		t.Errorf("a queue that may keep more: %s", text)
	}
	sum := func(queues ...Queue) Recent {
		total := Recent{Since: now.Add(-Recently)}
		for _, q := range queues {
			total.Add(q.Recent)
		}
		return total
	}
	if text := sum(full, set).Text(now); !strings.HasSuffix(text, "a process keeps what the settings of its queue say)") {
		t.Errorf("queues with several settings: %s", text)
	}
	if text := sum(full, young).Text(now); !strings.HasSuffix(text, cut) {
		t.Errorf("both: %s", text)
	}
	old := stats(9_700)
	old.Recent.Reaches = time.Time{} // what is kept goes back further than 5 minutes
	if item := queueItemOf(old, now); strings.Contains(item.Recent.Text(now), "before") {
		t.Errorf("nothing of these minutes was cut: %s", item.Recent.Text(now))
	}
}
