package coord

import (
	"context"
	"errors"
	"sync"
	"time"
)

// registry knows every claim of a session: being claimed, running, committing,
// or held by hand. What the session owns in etcd and the registry does not know
// is a stray: a claim whose answer was lost.
type registry struct {
	mu     sync.Mutex
	claims map[string]func(context.Context) error
	closed bool
	strays map[string]map[string]time.Time // scope -> nonce -> first seen unknown
	empty  chan struct{}                   // somebody waits for the last claim to go
}

func newRegistry() *registry {
	return &registry{claims: map[string]func(context.Context) error{}, strays: map[string]map[string]time.Time{}}
}

// Adopt registers a claim by its nonce before it is made, so that the reconciler
// leaves it alone. Release is called by Close, from a goroutine of its own, for a
// claim that is still held, and must return when its ctx ends; nil means that
// there is nothing to release. The error is [Session.Err] when the session is
// over: then nothing was registered and nothing may be claimed.
func (s *Session) Adopt(nonce string, release func(context.Context) error) error {
	if err := s.Err(); err != nil {
		return err
	}
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	if s.claims.closed {
		return s.Err()
	}
	s.claims.claims[nonce] = release
	return nil
}

// Forget takes a claim out of the registry: it is settled, or was never made.
func (s *Session) Forget(nonce string) {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	delete(s.claims.claims, nonce)
	s.claims.tellEmpty()
}

// whenEmpty returns a channel that is closed once no claim is registered.
func (r *registry) whenEmpty() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.empty == nil {
		r.empty = make(chan struct{})
	}
	empty := r.empty
	r.tellEmpty()
	return empty
}

// tellEmpty is called with mu held after claims have gone.
func (r *registry) tellEmpty() {
	if r.empty != nil && len(r.claims) == 0 {
		close(r.empty)
		r.empty = nil
	}
}

// Holding is how many claims the registry knows.
func (s *Session) Holding() int {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	return len(s.claims.claims)
}

// Strays takes the nonces of all claims in one scope, such as a queue, that etcd
// shows as this session's, and returns those that the registry has not known for two
// request timeouts: their owner never learned of them, and they must be released under
// their fences. Call it now and then with a list that is complete for its scope.
func (s *Session) Strays(scope string, owned []string, now time.Time) []string {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	return s.claims.strayAt(scope, owned, now)
}

func (r *registry) strayAt(scope string, owned []string, now time.Time) (strays []string) {
	seen := make(map[string]time.Time, len(owned))
	for _, nonce := range owned {
		if _, known := r.claims[nonce]; known {
			continue
		}
		since, ok := r.strays[scope][nonce]
		if !ok {
			since = now
		}
		seen[nonce] = since
		if now.Sub(since) >= 2*requestTimeout {
			strays = append(strays, nonce)
		}
	}
	r.strays[scope] = seen
	return strays
}

// releaseAll refuses new claims and releases those that are held.
func (r *registry) releaseAll(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	var held []func(context.Context) error
	for _, release := range r.claims {
		if release != nil {
			held = append(held, release)
		}
	}
	r.claims = map[string]func(context.Context) error{}
	r.tellEmpty()
	r.mu.Unlock()
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		errs error
	)
	for _, release := range held {
		wg.Go(func() {
			if err := release(ctx); err != nil && !errors.Is(err, ErrFenced) {
				mu.Lock()
				defer mu.Unlock()
				errs = errors.Join(errs, err)
			}
		})
	}
	wg.Wait()
	return errs
}
