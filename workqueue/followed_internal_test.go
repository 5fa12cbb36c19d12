package workqueue

import (
	"testing"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/claims"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// A job that is nowhere any more tells nothing of what closed its claim.
func TestWhatFollowedIsNotKnownOfAJobThatIsGone(t *testing.T) {
	q, err := Open(t.Context(), etcdtest.Shared(t).Client(t), Config{Queue: "q", Root: etcdtest.Root(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	r, _ := jobIn("claimed")
	c := q.newClaim(nil, snapshot{record: r, where: inJobs, rev: 7})
	w := &wayOut{c: c, at: c.at, n: next{record: &record{ID: r.ID, Born: r.Born, Nonce: keyspace.NewNonce(), Attempts: []Attempt{{}}}}}
	if got, err := w.followed(t.Context()); got != claims.Unsure || err == nil {
		t.Errorf("got %v, %v, want unsure, and why", got, err)
	}
}
