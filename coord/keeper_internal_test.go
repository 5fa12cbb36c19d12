package coord

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/leasekit/leasekit/internal/stubetcd"
)

// memberOn returns a member whose sessions are opened on e.
func memberOn(e *stubetcd.Etcd) *SessionKeeper {
	m := NewSessionKeeper(nil, SessionConfig{})
	m.open = func(ctx context.Context) (*Session, error) { return tryOpenOn(ctx, e, m.cfg) }
	return m
}

// run runs m until stop is called, which returns Run's error.
func run(t *testing.T, m *SessionKeeper) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	var once sync.Once
	var err error
	stop = func() error {
		once.Do(func() { cancel(); err = <-done })
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

func TestMemberReplacesLostSessions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := stubetcd.New()
		m := memberOn(e)
		stop := run(t, m)
		seen := map[string]bool{}
		var last *Session
		for range 10 {
			s, err := m.Session(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if seen[s.ID()] || s.Err() != nil {
				t.Errorf("got session %s, seen %v, error %v", s.ID(), seen[s.ID()], s.Err())
			}
			seen[s.ID()], last = true, s
			synctest.Wait()
			e.Delete(s.key)
			<-s.Done()
		}
		next, err := m.Session(t.Context())
		if err != nil || next == last {
			t.Errorf("after the last loss: got %v, %v", next, err)
		}
		if err := stop(); err != nil {
			t.Errorf("run: %v", err)
		}
		if got := e.Count("revoke"); got != 11 {
			t.Errorf("%d sessions were closed, want all 11", got)
		}
		if _, err := m.Session(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("after Run: got %v, want ErrClosed", err)
		}
	})
}

func TestMemberDoesNotReplaceInAHotLoop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := stubetcd.New()
		e.Renewal = func(_ context.Context, n int) (int64, error) { return e.TTL * int64(n%2), nil }
		stop := run(t, memberOn(e))
		<-time.After(time.Minute)
		if got := e.Count("grant"); got < 10 || got > 120 {
			t.Errorf("%d sessions were opened in a minute, each lost at its second renewal", got)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestMemberSessionReturnsByItsContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := stubetcd.New()
		e.Renewal = silent // nothing ever opens
		m := memberOn(e)
		stop := run(t, m)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("enough"))
		defer cancel()
		if _, err := m.Session(ctx); err == nil || err.Error() != "enough" {
			t.Errorf("got %v, want the cause of its ctx", err)
		}
		waiting := make(chan error, 1)
		go func() { _, err := m.Session(t.Context()); waiting <- err }()
		synctest.Wait()
		if err := stop(); err != nil {
			t.Error(err)
		}
		if err := <-waiting; !errors.Is(err, ErrClosed) {
			t.Errorf("a waiter at the end of Run: got %v, want ErrClosed", err)
		}
	})
}

// A lost session is closed once its holders have given up their claims, and a
// TTL later in any case; meanwhile its successor is at work.
func TestMemberClosesALostSessionBehindItsClaims(t *testing.T) {
	for name, forgets := range map[string]bool{"forgotten": true, "never forgotten": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := stubetcd.New()
				m := memberOn(e)
				stop := run(t, m)
				old, err := m.Session(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if err := old.track("n", nil); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				e.Delete(old.key)
				<-old.Done()
				if next, err := m.Session(t.Context()); err != nil || next == old {
					t.Fatalf("got %v, %v, want a successor", next, err)
				}
				<-time.After(5 * time.Second)
				if got := e.Count("revoke"); got != 0 {
					t.Errorf("closed while it held a claim: %d revocations", got)
				}
				if forgets {
					old.book.Untrack("n")
				} else {
					<-time.After(old.TTL())
				}
				synctest.Wait()
				if got := e.Count("revoke"); got != 1 {
					t.Errorf("not closed behind: %d revocations", got)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestMemberEndsOnlyForAHopelessConfiguration(t *testing.T) {
	m := NewSessionKeeper(nil, SessionConfig{})
	if err := m.Run(t.Context()); !errors.Is(err, ErrInvalid) {
		t.Errorf("without a client: got %v, want ErrInvalid", err)
	}
	if _, err := m.Session(t.Context()); !errors.Is(err, ErrInvalid) {
		t.Errorf("session after that: got %v, want why Run ended", err)
	}
}

func TestMemberEndsWhenItsFirstSessionIsDenied(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := stubetcd.New()
		m := memberOn(e)
		denied := rpctypes.ErrPermissionDenied
		m.open = func(context.Context) (*Session, error) { return nil, fmt.Errorf("open session: %w", denied) }
		if err := m.Run(t.Context()); !errors.Is(err, denied) {
			t.Errorf("denied at first: got %v", err)
		}

		m = memberOn(e)
		opened := 0
		m.open = func(ctx context.Context) (*Session, error) {
			if opened++; opened == 2 {
				return nil, denied // somebody changes the roles, and back
			}
			return tryOpenOn(ctx, e, m.cfg)
		}
		run(t, m)
		s, err := m.Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		e.Delete(s.key)
		<-s.Done()
		if _, err := m.Session(t.Context()); err != nil || opened != 3 {
			t.Errorf("denied later: got %v after %d tries", err, opened)
		}
	})
}

// So it does while it opens its first session, and etcd does not answer any more.
func TestMemberThatIsStoppedOpensNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := stubetcd.New()
		e.TTL = 3600
		e.Renewal = func(ctx context.Context, _ int) (int64, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}
		stop := run(t, memberOn(e))
		synctest.Wait()
		began := time.Now()
		if err := stop(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); e.Count("renew") != 1 || took > leaveWithin+time.Second {
			t.Errorf("it ended %v after its ctx, with %d renewals", took, e.Count("renew"))
		}
	})
}

// A member that is stopped ends within seconds, whatever its TTL: a claim that etcd does
// not take back is left to the lease. So does one that closes a lost session behind its
// successor by then.
func TestMemberStopsInTimeWhateverItsTTL(t *testing.T) {
	for name, lost := range map[string]bool{"live": false, "lost": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := stubetcd.New()
				e.TTL = 3600
				m := memberOn(e)
				stop := run(t, m)
				s, err := m.Session(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				closing := make(chan struct{})
				if err := s.keep("n", func(ctx context.Context) error {
					close(closing)
					<-ctx.Done()
					return ctx.Err()
				}); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if lost {
					e.Delete(s.key)
					<-closing // its TTL has passed
				}
				began := time.Now()
				if err := stop(); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took > leaveWithin+time.Second {
					t.Errorf("it ended %v after its ctx", took)
				}
			})
		})
	}
}
