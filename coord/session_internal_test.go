package coord

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leasekit/leasekit/internal/stubetcd"
)

// The window of a TTL of 10 s: nothing was answered since the first renewal.
const window = 9 * time.Second

// bubble runs f where time moves by itself and a goroutine left behind is an
// error.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

// afterFirst answers the first renewal and gives the others to f.
func afterFirst(f func(ctx context.Context, n int) (int64, error)) func(context.Context, int) (int64, error) {
	return func(ctx context.Context, n int) (int64, error) {
		if n == 1 {
			return 10, nil
		}
		return f(ctx, n)
	}
}

func silent(ctx context.Context, _ int) (int64, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

func TestSurvives_28_RenewalErrorsAreNotFinal(t *testing.T) {
	for _, code := range []codes.Code{codes.Unknown, codes.Internal, codes.Unavailable, codes.DeadlineExceeded, codes.PermissionDenied, codes.ResourceExhausted} {
		failing := afterFirst(func(context.Context, int) (int64, error) { return 0, status.Error(code, "not primary") })
		t.Run(code.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := stubetcd.New()
				e.Renewal = failing
				s := openOn(t, e, SessionConfig{})
				began := time.Now()
				<-s.Done()
				if got := time.Since(began); got != window {
					t.Errorf("lost after %v, want the whole window of %v", got, window)
				}
				if err := s.Err(); !errors.Is(err, ErrSessionLost) {
					t.Errorf("got %v, want ErrSessionLost", err)
				}
				if got := e.Count("renew"); got < 5 || got > 40 {
					t.Errorf("%d renewals were sent in the window, want a few, not a hot loop", got)
				}
			})
		})
	}
}

func TestRenewalsResumeAfterErrors(t *testing.T) {
	for name, fate := range map[string]func(context.Context, int) (int64, error){
		"refused": func(context.Context, int) (int64, error) { return 0, stubetcd.ErrUnavailable },
		"silent":  silent,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := stubetcd.New()
				opened := time.Now()
				e.Renewal = func(ctx context.Context, n int) (int64, error) {
					// Down for 4 s of every 11.
					if d := time.Since(opened) % (11 * time.Second); n > 1 && d > 7*time.Second {
						return fate(ctx, n)
					}
					return e.TTL, nil
				}
				s := openOn(t, e, SessionConfig{})
				select {
				case <-s.Done():
					t.Errorf("lost after %v: %v", time.Since(opened), s.Err())
				case <-time.After(time.Hour):
				}
			})
		})
	}
}

func TestOnlyATTLOfZeroIsFinal(t *testing.T) {
	for _, ttl := range []int64{0, -1} {
		t.Run(fmt.Sprint(ttl), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := stubetcd.New()
				e.Renewal = afterFirst(func(context.Context, int) (int64, error) { return ttl, nil })
				s := openOn(t, e, SessionConfig{})
				began := time.Now()
				<-s.Done()
				if got, want := time.Since(began), 2500*time.Millisecond; got != want {
					t.Errorf("lost after %v, want %v: at the first renewal", got, want)
				}
				if err := s.Err(); !errors.Is(err, ErrSessionLost) || s.Remaining() != 0 {
					t.Errorf("got %v with %v remaining", err, s.Remaining())
				}
			})
		})
	}
}

// An answer that comes after the window is over must not reopen it, even when
// nobody has looked at the clock in between.
func TestALateAnswerRevivesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := stubetcd.New()
		gate := make(chan struct{})
		e.Renewal = afterFirst(func(context.Context, int) (int64, error) {
			<-gate
			return e.TTL, nil
		})
		s := openOn(t, e, SessionConfig{})
		<-s.Done()
		close(gate)
		synctest.Wait()
		if s.Remaining() != 0 || !errors.Is(s.Err(), ErrSessionLost) {
			t.Errorf("got %v remaining and %v after a late answer", s.Remaining(), s.Err())
		}
	})
}

// The window starts when a renewal is sent, not when it is answered.
func TestTheWindowIsAnchoredAtTheSendTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := stubetcd.New()
		const slow = 900 * time.Millisecond
		e.Renewal = func(ctx context.Context, n int) (int64, error) {
			if n > 1 {
				return silent(ctx, n)
			}
			<-time.After(slow)
			return e.TTL, nil
		}
		s := openOn(t, e, SessionConfig{})
		if got, want := s.Remaining(), window-slow; got != want {
			t.Errorf("got %v remaining, want %v", got, want)
		}
		began := time.Now()
		<-s.Done()
		if got, want := time.Since(began), window-slow; got != want {
			t.Errorf("lost after %v, want %v", got, want)
		}
	})
}

// skewedClock runs with the bubble's clock, but its wall clock can be moved.
type skewedClock struct {
	mu   sync.Mutex
	read clock
	skew time.Duration
}

func (c *skewedClock) now() instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.read()
	at.wall = at.wall.Add(c.skew)
	return at
}

func (c *skewedClock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skew += d
}

func TestSurvives_49_SuspendedMachine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		clock := &skewedClock{read: systemClock()}
		e := stubetcd.New()
		s := openOn(t, e, SessionConfig{clock: clock.now})
		work, cancel := s.Context(t.Context())
		defer cancel()
		clock.jump(60 * time.Second) // the monotonic clock stood still
		// No timer has fired yet: whoever asks is told nevertheless.
		late, cancelLate := s.Context(t.Context())
		defer cancelLate()
		if late.Err() == nil || !errors.Is(context.Cause(late), ErrSessionLost) {
			t.Errorf("new work may start after a suspend: %v", context.Cause(late))
		}
		if err := s.track("n", nil); !errors.Is(err, ErrSessionLost) {
			t.Errorf("a claim may start after a suspend: %v", err)
		}
		synctest.Wait()
		if !errors.Is(context.Cause(work), ErrSessionLost) {
			t.Errorf("work goes on after a suspend: %v", context.Cause(work))
		}
	})
}

func TestASuspendIsNoticedWithoutAsking(t *testing.T) {
	bubble(t, func(t *testing.T) {
		clock := &skewedClock{read: systemClock()}
		s := openOn(t, stubetcd.New(), SessionConfig{clock: clock.now})
		clock.jump(60 * time.Second)
		began := time.Now()
		<-s.Done()
		if got := time.Since(began); got > 500*time.Millisecond {
			t.Errorf("noticed after %v", got)
		}
	})
}

func TestAWallClockThatJumpsBackIsHarmless(t *testing.T) {
	bubble(t, func(t *testing.T) {
		clock := &skewedClock{read: systemClock()}
		s := openOn(t, stubetcd.New(), SessionConfig{clock: clock.now})
		clock.jump(-time.Hour)
		select {
		case <-s.Done():
			t.Errorf("lost: %v", s.Err())
		case <-time.After(time.Minute):
		}
	})
}

func TestSurvives_39_HeartbeatsAreRenewalsAndNothingElse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := stubetcd.New()
		s := openOn(t, e, SessionConfig{})
		before := map[string]int{}
		for _, c := range []string{"txn", "get", "grant", "watch"} {
			before[c] = e.Count(c)
		}
		select {
		case <-s.Done():
			t.Fatal(s.Err())
		case <-time.After(time.Hour):
		}
		for c, n := range before {
			if got := e.Count(c); c != "watch" && got != n {
				t.Errorf("an idle hour cost %d calls of %s", got-n, c)
			}
		}
		if got := e.Count("renew"); got < 1400 || got > 1500 {
			t.Errorf("got %d renewals in an hour, want one every 2.5 s", got)
		}
	})
}

func TestAKeyThatIsGoneEndsTheSession(t *testing.T) {
	t.Run("seen by the watch", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			e := stubetcd.New()
			s := openOn(t, e, SessionConfig{})
			synctest.Wait()
			e.Delete(s.key)
			synctest.Wait()
			if err := s.Err(); !errors.Is(err, ErrSessionLost) {
				t.Errorf("got %v", err)
			}
		})
	})
	t.Run("missed by the watch, renewals stumbled", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			e := stubetcd.New()
			e.Renewal = func(_ context.Context, n int) (int64, error) {
				if n == 3 {
					return 0, stubetcd.ErrUnavailable
				}
				return e.TTL, nil
			}
			s := openOn(t, e, SessionConfig{})
			synctest.Wait()
			e.DeleteSilently(s.key)
			began := time.Now()
			<-s.Done()
			if got := time.Since(began); got > 6*time.Second {
				t.Errorf("noticed after %v, want right after the renewals resumed", got)
			}
		})
	})
}

func TestARewindEndsTheSession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := stubetcd.New()
		e.Renewal = func(_ context.Context, n int) (int64, error) {
			if n == 3 { // the server restarts, with older data
				e.Rewind(50)
				return 0, stubetcd.ErrUnavailable
			}
			return e.TTL, nil
		}
		s := openOn(t, e, SessionConfig{})
		<-s.Done()
		if err := s.Err(); !errors.Is(err, ErrHistoryRewound) || !errors.Is(err, ErrSessionLost) {
			t.Errorf("got %v, want ErrHistoryRewound, which is a lost session too", err)
		}
	})
}
