package coord

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasekit/leasekit/internal/stubetcd"
)

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
