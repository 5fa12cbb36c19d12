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

func TestContextCauses(t *testing.T) {
	type parentKey struct{}
	errParent := errors.New("drained")
	bubble(t, func(t *testing.T) {
		e := stubetcd.New()
		e.Renewal = afterFirst(silent)
		s := openOn(t, e, SessionConfig{})
		parent, cancelParent := context.WithCancelCause(context.WithValue(t.Context(), parentKey{}, "v"))
		ofParent, cancel := s.Context(parent)
		defer cancel()
		if got := ofParent.Value(parentKey{}); got != "v" {
			t.Errorf("values of the parent are lost: %v", got)
		}
		cancelParent(errParent)
		if got := context.Cause(ofParent); got != errParent {
			t.Errorf("parent ended: got cause %v, want its cause", got)
		}
		cancelled, cancelIt := s.Context(t.Context())
		cancelIt()
		if got := context.Cause(cancelled); got != context.Canceled {
			t.Errorf("cancelled: got cause %v", got)
		}
		lost, cancelLost := s.Context(t.Context())
		defer cancelLost()
		<-lost.Done()
		if got := context.Cause(lost); !errors.Is(got, ErrSessionLost) || lost.Err() != context.Canceled {
			t.Errorf("lost: got cause %v, error %v", got, lost.Err())
		}
	})
}

func TestCloseEndsContexts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := openOn(t, stubetcd.New(), SessionConfig{})
		work, cancel := s.Context(t.Context())
		defer cancel()
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := context.Cause(work); !errors.Is(got, ErrClosed) || errors.Is(got, ErrSessionLost) {
			t.Errorf("got cause %v, want ErrClosed alone", got)
		}
		after, cancelAfter := s.Context(t.Context())
		defer cancelAfter()
		if after.Err() == nil {
			t.Error("a context of a closed session is alive")
		}
	})
}

func TestCloseIsIdempotentAndConcurrent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := stubetcd.New()
		s := openOn(t, e, SessionConfig{})
		gate := make(chan struct{})
		released := 0
		if err := s.keep("held", func(context.Context) error { <-gate; released++; return nil }); err != nil {
			t.Fatal(err)
		}
		if err := s.keep("lost", func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if err := s.Close(context.Background()); err != nil {
					t.Errorf("close: %v", err)
				}
			})
		}
		synctest.Wait()
		if err := s.track("new", nil); !errors.Is(err, ErrClosed) {
			t.Errorf("adopt while closing: got %v, want ErrClosed", err)
		}
		ended, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Close(ended); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close with a short ctx while another is at it: got %v", err)
		}
		close(gate)
		wg.Wait()
		if got := e.Count("revoke"); released != 1 || got != 1 {
			t.Errorf("released %d times, revoked %d times, want once", released, got)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Errorf("close again: %v", err)
		}
	})
}

// A lost session that is closed late keeps saying why it ended.
func TestCloseAfterLossKeepsTheCause(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := stubetcd.New()
		e.Renewal = afterFirst(silent)
		s := openOn(t, e, SessionConfig{})
		<-s.Done()
		if err := s.track("n", nil); !errors.Is(err, ErrSessionLost) {
			t.Errorf("adopt after loss: got %v", err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Err(); !errors.Is(err, ErrSessionLost) || errors.Is(err, ErrClosed) {
			t.Errorf("got %v, want the loss", err)
		}
		if e.Count("revoke") != 1 {
			t.Error("the lease of a lost session was not revoked by Close")
		}
	})
}

func TestASessionThatNeverGetsAnAnswerIsNotOpened(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := stubetcd.New()
		e.Renewal = silent
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		began := time.Now()
		s, err := tryOpenOn(ctx, e, SessionConfig{})
		if s != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, %v", s, err)
		}
		if got := time.Since(began); got < 20*time.Second || got > 22*time.Second {
			t.Errorf("gave up after %v", got)
		}
		if e.Count("revoke") != 1 {
			t.Error("the lease was left behind")
		}
	})
}

// A session is well while it lives and every claim of it has somebody who can end it.
func TestSessionHealthz(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := stubetcd.New()
		s := openOn(t, e, SessionConfig{})
		if err := s.Healthz(); err != nil {
			t.Errorf("a new session: %v", err)
		}
		denied := errors.New("denied")
		mend := make(chan struct{})
		if err := s.keep("n", func(context.Context) error {
			select {
			case <-mend:
				return nil
			default:
				return denied
			}
		}); err != nil {
			t.Fatal(err)
		}
		s.book.Settle("n")
		synctest.Wait()
		if err := s.Healthz(); !errors.Is(err, denied) {
			t.Errorf("with a claim that cannot be ended: got %v", err)
		}
		close(mend)
		<-s.book.Drained()
		if err := s.Healthz(); err != nil {
			t.Errorf("once it is ended: %v", err)
		}
		e.Delete(s.key)
		<-s.Done()
		if err := s.Healthz(); !errors.Is(err, ErrSessionLost) {
			t.Errorf("a lost session: got %v", err)
		}
	})
}

// A claim that comes while Close gives the others back must not slip in behind it.
func TestNothingIsEnteredBehindClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := openOn(t, stubetcd.New(), SessionConfig{})
		if err := s.book.Close(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		_, _ = s.track("late", nil), s.keep("late", nil) // whose session is not over yet
		if n := s.book.Len(); n != 0 {
			t.Errorf("%d claims were entered that nobody gives back", n)
		}
	})
}
