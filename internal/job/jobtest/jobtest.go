// Package jobtest makes records, events and keys for tests of what stands on package job.
package jobtest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// Now is now in tests that choose their time.
var Now = time.Date(2026, 3, 4, 5, 6, 7, 890_123_456, time.UTC)

// Nonce is a head nonce of these tests.
const Nonce = "00000000000000aa"

// Txns builds the Txns of queue q under a root.
func Txns(t testing.TB, root string) job.Txns {
	t.Helper()
	space, err := keyspace.New(root)
	if err != nil {
		t.Fatal(err)
	}
	return job.Txns{Keys: space.Queue("q"), Space: space}
}

// In is a record in a state.
func In(state string) (*job.Record, job.Place) {
	r := &job.Record{
		Nonce: Nonce, Version: job.VersionPlain, ID: "x", Born: "b", MaxAttempts: 9, MaxLosses: 9,
		Attempt: 4, Failures: 2, Losses: 1, LogTotal: 1, Attempts: []job.Attempt{{Attempt: 3, Outcome: job.OutcomeFailed}},
	}
	switch state {
	case "open, due":
	case "open, later":
		r.RunAt = job.Stamp(Now.Add(time.Minute))
	case "claimed":
		r.Owner, r.OwnerRev, r.ClaimedAt = "old", 5, job.Stamp(Now.Add(-time.Minute))
	case "done":
		r.Outcome, r.FinishedAt, r.Result = job.OutcomeCompleted, job.Stamp(Now), []byte("1")
		return r, job.InDone
	case "dead":
		r.Outcome, r.FinishedAt, r.Error = job.OutcomeDead, job.Stamp(Now), "why"
		return r, job.InDead
	}
	return r, job.InJobs
}

// Event is what is the same in all events of these tests.
func Event(v job.Verb) job.Event {
	return job.Event{
		Verb: v, Now: Now, Nonce: "00000000000000cc", Token: 77, Owner: "new", OwnerRev: 6,
		Result: []byte(`{"r":1}`), Err: "oops", At: Now.Add(time.Hour),
		Delay: func(n int) time.Duration { return time.Duration(n) * time.Second },
		By:    job.By{Actor: "ann", Reason: "because", BreakClaim: true},
		Edit:  &job.Edition{Description: job.Description{Payload: []byte("2"), RunAt: Now.Add(2 * time.Hour)}, Repacked: true},
		From:  "q",
	}
}

// KeyOf is a key that holds a record.
func KeyOf(t testing.TB, key string, r *job.Record, rev int64) *mvccpb.KeyValue {
	t.Helper()
	value, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return &mvccpb.KeyValue{Key: []byte(key), Value: value, CreateRevision: rev, ModRevision: rev}
}

// Twice is a record at one revision in two histories.
func Twice(t testing.TB, key, name string, rev int64) (a, b *mvccpb.KeyValue) {
	t.Helper()
	r, _ := In(name)
	a = KeyOf(t, key, r, rev)
	other := *r
	other.Nonce, other.Kind = keyspace.NewNonce(), "other"
	return a, KeyOf(t, key, &other, rev)
}

// Golden reads the files that say how records are written; dir is package job's testdata.
func Golden(t testing.TB, dir string) (all [][]byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files", err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, bytes.TrimSpace(b))
	}
	return all
}
