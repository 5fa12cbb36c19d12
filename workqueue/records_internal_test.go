package workqueue

import (
	"testing"
	"time"

	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// testNow is now in tests that choose their time.
var testNow = time.Date(2026, 3, 4, 5, 6, 7, 890_123_456, time.UTC)

const testNonce = "00000000000000aa"

func testTxns(t testing.TB, root string) job.Txns {
	t.Helper()
	space, err := keyspace.New(root)
	if err != nil {
		t.Fatal(err)
	}
	return job.Txns{Keys: space.Queue("q"), Space: space}
}

// jobIn is a record in a state.
func jobIn(state string) (*job.Record, job.Place) {
	r := &job.Record{
		Nonce: testNonce, Version: job.VersionPlain, ID: "x", Born: "b", MaxAttempts: 9, MaxLosses: 9,
		Attempt: 4, Failures: 2, Losses: 1, LogTotal: 1, Attempts: []job.Attempt{{Attempt: 3, Outcome: job.OutcomeFailed}},
	}
	switch state {
	case "open, due":
	case "open, later":
		r.RunAt = job.Stamp(testNow.Add(time.Minute))
	case "claimed":
		r.Owner, r.OwnerRev, r.ClaimedAt = "old", 5, job.Stamp(testNow.Add(-time.Minute))
	case "done":
		r.Outcome, r.FinishedAt, r.Result = job.OutcomeCompleted, job.Stamp(testNow), []byte("1")
		return r, job.InDone
	case "dead":
		r.Outcome, r.FinishedAt, r.Error = job.OutcomeDead, job.Stamp(testNow), "why"
		return r, job.InDead
	}
	return r, job.InJobs
}

// testEvent is what is the same in all events of these tests.
func testEvent(v job.Verb) job.Event {
	return job.Event{
		Verb: v, Now: testNow, Nonce: "00000000000000cc", Token: 77, Owner: "new", OwnerRev: 6,
		Result: []byte(`{"r":1}`), Err: "oops", At: testNow.Add(time.Hour),
		Delay: func(n int) time.Duration { return time.Duration(n) * time.Second },
		By:    job.By{Actor: "ann", Reason: "because", BreakClaim: true},
		Edit:  &job.Edition{Description: job.Description{Payload: []byte("2"), RunAt: testNow.Add(2 * time.Hour)}, Repacked: true},
		From:  "q",
	}
}
