package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/workqueue"
)

// A record with impossible counts is worked by nobody, holds up nobody, and becomes a
// dead letter that can be requeued.
func TestImpossibleCountsAreNotWorked(t *testing.T) {
	d := newDesk(t, workqueue.Config{Backoff: workqueue.Backoff{Initial: time.Millisecond, Max: time.Millisecond}})
	rev := d.put(d.keys.Job("evil"), fmt.Sprintf(`{"w":%q,"v":1,"id":"evil","born":"b","failures":9223372036854775807,"attempt":9223372036854775807}`, keyspace.NewNonce()))
	var worked tally
	run(t, d.q, workqueue.WorkerConfig{}, func(_ context.Context, c *workqueue.Claim) ([]byte, error) {
		worked.add(c.Job().ID)
		if c.Job().ID == "evil" && worked.get("evil") == 1 {
			return nil, errors.New("no")
		}
		return nil, nil
	})
	for i := range 3 {
		enqueue(t, d.q, workqueue.Params{ID: "good" + itoa(i)})
		wait(t, d.q, "good"+itoa(i))
	}
	if unread, err := admin.Undecodable(bounded(t), d.q); err != nil || len(unread) != 1 || worked.get("evil") != 0 {
		t.Errorf("got %v, %v; it was worked %d times", unread, err, worked.get("evil"))
	}
	if _, err := admin.Salvage(bounded(t), d.q, "evil", workqueue.By{Actor: "ann", Revision: rev}); err != nil {
		t.Fatal(err)
	}
	if j := get(t, d.q, "evil"); j.State != workqueue.StateDead || j.Failures != 0 || j.Attempt != 0 {
		t.Errorf("got %+v", j)
	}
	if _, err := d.q.Requeue(bounded(t), "evil", workqueue.By{Actor: "ann"}); err != nil {
		t.Fatal(err)
	}
	if j := wait(t, d.q, "evil"); j.State != workqueue.StateDone || worked.get("evil") != 2 {
		t.Errorf("got %s after %d attempts", j.State, worked.get("evil"))
	}
}
