package election

import (
	"testing"
	"time"

	"github.com/leasekit/leasekit/internal/line"
)

// Whose session is gone leads nothing, although the leader's key still names it.
func TestObserverOfADeadLeader(t *testing.T) {
	for _, tc := range []struct {
		name string
		st   line.State
		want Status
	}{
		{"nobody", line.State{}, None},
		{"a leader", line.State{Owner: "a.1", Token: 7}, Leader},
		{"a dead one", line.State{Owner: "a.1", Token: 7, OwnerGone: true}, None},
	} {
		if got := stateOf(tc.st, time.Now()); got.Status != tc.want || (got.Session == "") != (tc.want == None) {
			t.Errorf("%s: got %+v, want %s", tc.name, got, tc.want)
		}
	}
}
