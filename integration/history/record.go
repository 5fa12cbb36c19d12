package history

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/leasekit/leasekit/workqueue"
)

// jobRecord is what the checker reads of a job's record. It is written apart from the
// library's own, so that both must be wrong alike for an error to hide.
type jobRecord struct {
	Nonce      string              `json:"w"`
	ID         string              `json:"id"`
	Born       string              `json:"born"`
	Attempt    int                 `json:"attempt"`
	Failures   int                 `json:"failures"`
	Losses     int                 `json:"losses"`
	AtMostOnce bool                `json:"at_most_once"`
	Owner      string              `json:"owner"`
	OwnerRev   int64               `json:"owner_rev,string"`
	Assigned   bool                `json:"assigned"`
	Outcome    string              `json:"outcome"`
	LogTotal   int                 `json:"attempts_total"`
	Attempts   []workqueue.Attempt `json:"attempts"`
}

func decodeRecord(value []byte) (*jobRecord, error) {
	r := &jobRecord{}
	if err := json.Unmarshal(value, r); err != nil {
		return nil, err
	}
	if r.Nonce == "" || r.ID == "" || r.Born == "" {
		return nil, errors.New("no nonce, id or born")
	}
	return r, nil
}

func (r *jobRecord) claimed() bool { return r.Owner != "" }

// entry is the last one of the trail.
func (r *jobRecord) entry() workqueue.Attempt {
	if len(r.Attempts) == 0 {
		return workqueue.Attempt{}
	}
	return r.Attempts[len(r.Attempts)-1]
}

// trailLimit is how many entries a record keeps.
const trailLimit = 20

// sameTrail tells whether b's trail is a's.
func sameTrail(a, b *jobRecord) bool {
	return a.LogTotal == b.LogTotal && slices.Equal(a.Attempts, b.Attempts)
}

// grownByOne tells whether b's trail is a's and one more entry: appended, or collapsed
// into the last one, which it repeats.
func grownByOne(a, b *jobRecord) bool {
	if b.LogTotal != a.LogTotal+1 || len(b.Attempts) == 0 {
		return false
	}
	added, old := b.entry(), a.Attempts
	if n := len(old); n > 0 && repeats(old[n-1], added) {
		return added.Repeated == old[n-1].Repeated+1 && slices.Equal(b.Attempts[:len(b.Attempts)-1], old[:n-1])
	}
	want := append(slices.Clone(old), added)
	return added.Repeated == 0 && slices.Equal(b.Attempts, want[max(len(want)-trailLimit, 0):])
}

// repeats tells whether two entries say the same, but for when and which attempt.
func repeats(a, b workqueue.Attempt) bool {
	if b.Outcome != "snoozed" && b.Outcome != "released" {
		return false
	}
	return a.Outcome == b.Outcome && a.Owner == b.Owner && a.Error == b.Error && a.Actor == b.Actor && a.Reason == b.Reason
}
