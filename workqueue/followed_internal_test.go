package workqueue

import (
	"testing"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/claims"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/job/jobtest"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// A job that is nowhere any more tells nothing of what closed its claim.
func TestWhatFollowedIsNotKnownOfAJobThatIsGone(t *testing.T) {
	q, err := Open(t.Context(), etcdtest.Shared(t).Client(t), Config{Queue: "q", Root: etcdtest.Root(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	r, _ := jobtest.In("claimed")
	c := q.newClaim(nil, job.Snapshot{Record: r, Where: job.InJobs, Rev: 7})
	w := &wayOut{c: c, at: c.at, n: job.Next{Record: &job.Record{ID: r.ID, Born: r.Born, Nonce: keyspace.NewNonce(), Attempts: []job.Attempt{{}}}}}
	if got, err := w.followed(t.Context()); got != claims.Unsure || err == nil {
		t.Errorf("got %v, %v, want unsure, and why", got, err)
	}
}
