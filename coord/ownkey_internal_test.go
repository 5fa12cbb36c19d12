package coord

import (
	"testing"

	"github.com/leasekit/leasekit/internal/stubetcd"
)

// A key that somebody put in the place of the session's own is not the session.
func TestAnotherKeyOfTheSameNameIsNotTheSession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := stubetcd.New()
		s := openOn(t, e, SessionConfig{})
		if _, ok := s.keyExists(); !ok {
			t.Error("the session's own key is not there")
		}
		e.Mu.Lock()
		e.Keys[s.key].CreateRevision += 5
		e.Mu.Unlock()
		if _, ok := s.keyExists(); ok {
			t.Error("a later key is taken for the session's own")
		}
	})
}
