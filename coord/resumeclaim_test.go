package coord_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
)

// claimed is what a lock, a leadership and a semaphore have in common.
type claimed interface {
	TryAcquire(context.Context) (*coord.Hold, error)
	ResumeClaim(context.Context, coord.Token, string) (*coord.Hold, error)
}

// A claim outlives the process that made it: another goes on with it by its token, as long as it is the session's and
// current.
func TestClaimIsTakenUpByItsToken(t *testing.T) {
	for name, claim := range map[string]func(*coord.Session) claimed{
		"lock":      func(s *coord.Session) claimed { return coord.NewLock(s, "l") },
		"election":  func(s *coord.Session) claimed { return leadership(s, "l") },
		"semaphore": func(s *coord.Session) claimed { return coord.NewSemaphore(s, "l", 3) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := etcdtest.Root(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			s, err := coord.OpenSession(ctx, etcdtest.Shared(t).Client(t), coord.SessionConfig{Root: root, TTL: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			h, err := claim(s).TryAcquire(ctx)
			if err != nil {
				t.Fatal(err)
			}
			token, nonce := h.Token(), h.Fence().Nonce
			if err := s.Leave(ctx); err != nil {
				t.Fatal(err)
			}
			again := resumed(ctx, t, root, s.ID())
			other := lockSession(t, root)
			for what, try := range map[string]func() (*coord.Hold, error){
				"another token":   func() (*coord.Hold, error) { return claim(again).ResumeClaim(ctx, token-1, nonce) },
				"another nonce":   func() (*coord.Hold, error) { return claim(again).ResumeClaim(ctx, token, "0123456789abcdef") },
				"another session": func() (*coord.Hold, error) { return claim(other).ResumeClaim(ctx, token, nonce) },
				"no token":        func() (*coord.Hold, error) { return claim(again).ResumeClaim(ctx, 0, "") },
			} {
				if _, err := try(); !errors.Is(err, coord.ErrFenced) {
					t.Errorf("%s: got %v, want fenced", what, err)
				}
			}
			h, err = claim(again).ResumeClaim(ctx, token, "")
			if err != nil {
				t.Fatal(err)
			}
			if err := h.Verify(ctx); err != nil {
				t.Error(err)
			}
			if h.Fence() != (coord.Fence{Key: h.Fence().Key, Token: token, Nonce: nonce}) {
				t.Errorf("fence %+v, want token %s and nonce %s", h.Fence(), token, nonce)
			}
			if err := h.Release(ctx); err != nil {
				t.Error(err)
			}
			if _, err := claim(again).ResumeClaim(ctx, token, nonce); !errors.Is(err, coord.ErrFenced) {
				t.Errorf("take up what was released: got %v, want fenced", err)
			}
		})
	}
}

// What was taken up is given back when its session is closed, as what was acquired is.
func TestClosingReleasesWhatWasTakenUp(t *testing.T) {
	t.Parallel()
	root := etcdtest.Root(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := resumed(ctx, t, root, "")
	h, err := coord.NewLock(s, "l").TryAcquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	token := h.Token()
	if err := s.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	s = resumed(ctx, t, root, s.ID())
	if _, err := coord.NewLock(s, "l").ResumeClaim(ctx, token, ""); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := coord.NewLock(lockSession(t, root), "l").TryAcquire(ctx); err != nil {
		t.Errorf("the lock is not free: %v", err)
	}
}

// resumed opens or resumes a session; the test closes it.
func resumed(ctx context.Context, t *testing.T, root, sid string) *coord.Session {
	t.Helper()
	s, err := coord.OpenSession(ctx, etcdtest.Shared(t).Client(t), coord.SessionConfig{Root: root, TTL: time.Minute, Resume: sid})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		_ = s.Close(ctx) // it may have been left or closed
	})
	return s
}

// Who waited in line and left has no entry there that would hold up those behind.
func TestLeavingWithdrawsWhatWaited(t *testing.T) {
	t.Parallel()
	root := etcdtest.Root(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	h, err := coord.NewLock(lockSession(t, root), "l").TryAcquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s := resumed(ctx, t, root, "")
	lock := coord.NewLock(s, "l")
	waiting, stop := context.WithTimeout(ctx, 100*time.Millisecond)
	defer stop()
	if _, err := lock.Acquire(waiting); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want that the time is over", err)
	}
	if err := s.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	st, err := lock.State(ctx)
	if err != nil || len(st.Waiters) != 0 {
		t.Errorf("in line: %v, %v", st.Waiters, err)
	}
	if err := h.Release(ctx); err != nil {
		t.Error(err)
	}
}
