package ready

import (
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/internal/job/jobtest"
)

// A claim whose owner is not known is an orphan only once the mirror of the sessions
// has come as far as the claim: until then it may just not show the owner yet.
func TestAnOrphanIsSeenToBeOne(t *testing.T) {
	txns := jobtest.Txns(t, "/t/")
	x := NewIndex(txns.Space, "q")
	sessionSink{x}.Reset(nil, 9)
	r, _ := jobtest.In("claimed")
	jobSink{x}.Reset([]*mvccpb.KeyValue{jobtest.KeyOf(t, txns.Keys.Job("x"), r, 10)}, 10)
	if got := x.jobs["x"].state; got != entryHeld {
		t.Errorf("the sessions as of 9 make an orphan of a claim of 10: state %d", got)
	}
	sessionSink{x}.Apply(nil, 10)
	if got := x.jobs["x"].state; got != entryOrphan {
		t.Errorf("the owner is gone as of 10: state %d, want an orphan", got)
	}
}

// As long as a handler runs in this process, whatever became of its claim, no other
// attempt at the job is begun here.
func TestNoAttemptBesideAHungOne(t *testing.T) {
	txns := jobtest.Txns(t, "/t/")
	x := NewIndex(txns.Space, "q")
	r, _ := jobtest.In("open, due")
	jobSink{x}.Reset([]*mvccpb.KeyValue{jobtest.KeyOf(t, txns.Keys.Job("x"), r, 10)}, 10)
	picked, _ := x.Pick(1, Claimant{SID: "me", TTL: time.Minute})
	if len(picked) != 1 {
		t.Fatalf("picked %d jobs, want 1", len(picked))
	}
	// Its claim was given up, so the job is open again, and its handler goes on.
	jobSink{x}.Reset([]*mvccpb.KeyValue{jobtest.KeyOf(t, txns.Keys.Job("x"), r, 12)}, 12)
	if again, _ := x.Pick(1, Claimant{SID: "me", TTL: time.Minute}); len(again) != 0 {
		t.Error("an attempt was begun beside one that runs")
	}
	x.Leave(picked[0])
	if again, _ := x.Pick(1, Claimant{SID: "me", TTL: time.Minute}); len(again) != 1 {
		t.Error("the job is left alone although nothing of it runs")
	}
}
