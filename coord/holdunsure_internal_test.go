package coord

import "testing"

// The answer to a release is lost beyond finding out, with its lane. The claim that is
// gone then is the release's own doing: nobody else was told to take it.
func TestReleaseWhoseLaneIsLostWasMade(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	s := l.session(t)
	h := <-l.acquires(within(t), s)
	lane := s.committer.laneLeaseNow()
	l.faultsAt(l.keys, "delete slot,", fault{lose: errLost, then: func() {
		if _, err := l.client.Revoke(within(t), lane); err != nil {
			t.Error(err)
		}
	}})
	wantErr(t, h.Release(within(t)), nil)
	l.nothingLeft(s)
}
