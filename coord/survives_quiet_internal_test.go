package coord

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/leasekit/leasekit/internal/stubetcd"
)

// Nobody looks at a session for a minute, nor for an hour: there is no queue of
// answers that could fill up, nothing is dropped, and nothing is logged. Nor is there
// a flood when half of the renewals fail all the while: the log has a line for each
// that failed, and these are few.
func TestSurvives_29_NobodyListens(t *testing.T) {
	for _, tc := range []struct {
		name    string
		failing bool
		// lines per minute, at most; only debug lines are expected at all.
		lines int
	}{{"all is well", false, 0}, {"half of the renewals fail", true, 60}} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				core, logs := observer.New(zapcore.DebugLevel)
				e := stubetcd.New()
				e.Renewal = func(_ context.Context, n int) (int64, error) {
					if tc.failing && n > 1 && n%2 == 0 {
						return 0, stubetcd.ErrUnavailable
					}
					return e.TTL, nil
				}
				s := openOn(t, e, SessionConfig{Logger: zap.New(core)})
				for minute := range 60 {
					select {
					case <-s.Done():
						t.Fatalf("lost in minute %d: %v", minute, s.Err())
					case <-time.After(time.Minute):
					}
					if got := logs.TakeAll(); len(got) > tc.lines {
						t.Fatalf("%d lines in minute %d, such as %v", len(got), minute, got[0])
					} else if len(got) > 0 && got[0].Level != zapcore.DebugLevel {
						t.Errorf("logged %v", got[0])
					}
				}
				synctest.Wait()
				if s.Remaining() <= 0 {
					t.Error("the session is alive and has no time left")
				}
			})
		})
	}
}
