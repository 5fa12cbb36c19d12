package workqueue

import (
	"bytes"
	"slices"
	"testing"

	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/job/jobtest"
	"github.com/leasekit/leasekit/internal/queue"
)

func TestViewNamesTheState(t *testing.T) {
	alive := func(string, int64) bool { return true }
	for _, tc := range []struct {
		state string
		lives func(string, int64) bool
		last  string
		want  State
	}{
		{"open, due", queue.Nobody, job.OutcomeFailed, StateReady},
		{"open, later", queue.Nobody, job.OutcomeFailed, StateRetry},
		{"open, later", queue.Nobody, job.OutcomeLost, StateRetry},
		{"open, later", queue.Nobody, job.OutcomeSnoozed, StateScheduled},
		{"open, later", queue.Nobody, "", StateScheduled},
		{"claimed", alive, "", StateClaimed},
		{"claimed", queue.Nobody, "", StateOrphan},
		{"done", queue.Nobody, "", StateDone},
		{"dead", queue.Nobody, "", StateDead},
	} {
		r, where := jobtest.In(tc.state)
		if r.Attempts = nil; tc.last != "" {
			r.Attempts = []job.Attempt{{Outcome: tc.last}}
		}
		j := view(r, "q", where, 42, jobtest.Now, tc.lives)
		if j.State != tc.want {
			t.Errorf("%s after %q: got %s, want %s", tc.state, tc.last, j.State, tc.want)
		}
		if held := tc.state == "claimed"; held != (j.Owner != "") || held != (j.Token == 42) || j.Revision != 42 {
			t.Errorf("%s: owner %q, token %s, revision %d", tc.state, j.Owner, j.Token, j.Revision)
		}
	}
	r, where := jobtest.In("done")
	r.Outcome = job.OutcomeCancelled
	if got := view(r, "q", where, 1, jobtest.Now, queue.Nobody).State; got != StateCancelled {
		t.Errorf("got %s, want cancelled", got)
	}
	for _, s := range allStates {
		if over := slices.Contains([]State{StateDone, StateDead, StateCancelled}, s); s.Live() == over {
			t.Errorf("%s is live: %v", s, s.Live())
		}
	}
}

// Whoever is given a snapshot may do with it what they like.
func TestASnapshotSharesNothingWithTheRecord(t *testing.T) {
	r, _ := jobtest.In("done")
	r.Labels, r.Trace = map[string]string{"team": "a"}, map[string]string{"traceparent": "00-1"}
	r.Payload = []byte(`{"n":1}`)
	before, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	j := view(r, "q", job.InDone, 1, jobtest.Now, queue.Nobody)
	clear(j.Payload)
	clear(j.Result)
	clear(j.Labels)
	clear(j.Trace)
	clear(j.Attempts)
	if after, _ := r.Encode(); !bytes.Equal(before, after) {
		t.Error("the record changed with its snapshot")
	}
}
