package history_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/leasekit/leasekit/integration/history"
)

// A history of many jobs, each with a failure, a loss and a result, is checked in a
// few seconds. The deadline is for machines that are busy.
func TestManyJobsAreCheckedSoon(t *testing.T) {
	many := 20_000
	if testing.Short() || raceEnabled {
		many = 2000
	}
	s := newStory(t)
	s.session("a")
	s.session("b")
	for i := range many {
		id := fmt.Sprintf("j%d", i)
		s.enqueue(id)
		s.claim(id, "a")
		s.work(id, "a", s.now-ms, s.now)
		s.end(id, "failed", "jobs")
		s.claim(id, "b")
		s.complete(id)
	}
	began := time.Now()
	r := history.Check(s.run(), bounds)
	checked := time.Since(began)
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	if r.Stats.Done != many {
		t.Errorf("got %v", r.Stats)
	}
	began = time.Now()
	if err := history.CheckLinearizable(s.run(), history.LinearConfig{Dir: t.TempDir()}); err != nil {
		t.Error(err)
	}
	t.Logf("%d events: checked in %v, linearizable in %v", len(s.events), checked, time.Since(began))
	if checked > time.Minute {
		t.Errorf("checking took %v", checked)
	}
}
