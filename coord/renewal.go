package coord

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
)

// renewLoop renews every quarter of the TTL until the session is over. It stops
// with the trust: a session that nobody closes must not look alive for ever.
func (s *Session) renewLoop() {
	for try := 0; ; {
		every := s.window().renewEvery()
		wait := every
		if try > 0 {
			// Soon, but not in a hot loop: the trust window is short.
			wait = min(25*time.Millisecond<<min(try, 5), every)
		}
		if !etcdkv.Sleep(s.life, wait) || s.Err() != nil {
			return
		}
		if err := s.renewOnce(s.life); err != nil {
			try++
			s.log.Debug("renew session", zap.Int("try", try), zap.Error(err))
			continue
		}
		if try > 0 {
			s.doubt() //mutant:own-key-doubted
		}
		try = 0
	}
}

// doubt has the session's key looked at. Renewals that fail and then succeed mean
// that a connection died or a server restarted: the watch of the key may hang on
// the dead one, and the server may have come back with older data.
func (s *Session) doubt() {
	select {
	case s.recheck <- struct{}{}:
	default: // it will be looked at anyway
	}
}

func (s *Session) window() trust {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trust
}

// renewOnce sends one keepalive; the trust window starts anew at its send time.
// Only a TTL of zero is final. Whatever else goes wrong is tried again until the
// window ends. Ctx is the session's life, or of the one who opens it, whose time may be
// over long before an answer is late.
func (s *Session) renewOnce(ctx context.Context) error {
	window := s.window()
	timeout := window.answerTimeout()
	first := window.sent.wall.IsZero()
	if first {
		// There is no trust yet to lose, and opening the first stream may log in.
		timeout = max(timeout, window.ttl/2)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	sent := s.clock()
	ttl, err := s.renewer.Renew(ctx)
	if err != nil {
		return fmt.Errorf("renew lease: %w", err)
	}
	if ttl <= 0 { //mutant:renewal-ttl-zero
		err := fmt.Errorf("%w: its lease is gone", fault.ErrSessionLost)
		s.end(err)
		return err
	}
	// An answer that comes after the window ended must not reopen it.
	if !first && s.Remaining() <= 0 { //mutant:renewal-late
		return s.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trust = trust{sent: sent, ttl: time.Duration(ttl) * time.Second} //mutant:trust-from-send
	return nil
}

// watchClock ends the session when its trust window is over.
func (s *Session) watchClock() {
	for {
		left := s.Remaining()
		if left <= 0 {
			return
		}
		t := time.NewTimer(min(left, s.window().lookEvery()))
		select {
		case <-t.C:
		case <-s.rewound: //mutant:rewind-ends-session
			s.end(fault.ErrHistoryRewound)
		case <-s.store.Closed():
			s.end(fmt.Errorf("%w: %w", fault.ErrSessionLost, fault.ErrClientClosed))
		case <-s.Done():
		}
		t.Stop()
	}
}

// watchOwnKey ends the session when its key is seen deleted: by an operator, or
// by a lease that expired although its renewals were answered.
func (s *Session) watchOwnKey() {
	from := s.createRev + 1
	for try, n := 0, 0; s.life.Err() == nil; try, n = try+1, n+1 {
		began := time.Now()
		if s.watchKeyFrom(from, n) {
			s.end(fmt.Errorf("%w: its key was deleted", fault.ErrSessionLost))
			return
		}
		if time.Since(began) > etcdkv.RequestTimeout {
			try = 0
		}
		if etcdkv.Pause(s.life, try) != nil {
			return
		}
		next, ok := s.keyExists()
		if !ok {
			s.end(fmt.Errorf("%w: its key is gone", fault.ErrSessionLost))
			return
		}
		from = max(from, next)
	}
}

// watchKeyFrom watches on a stream of its own, number n, until the stream ends or
// is in doubt; true means that the key was deleted.
func (s *Session) watchKeyFrom(rev int64, n int) bool {
	ctx, cancel := context.WithCancel(s.life)
	defer cancel()
	// The client waits for the server to confirm the watch, for ever if need be.
	unconfirmed := time.AfterFunc(etcdkv.RequestTimeout, cancel)
	defer unconfirmed.Stop()
	watch := s.store.WatchOn(ctx, fmt.Sprintf("own-%d", n), s.key, rev)
	unconfirmed.Stop()
	for {
		select {
		case resp, ok := <-watch:
			if !ok {
				return false
			}
			for _, ev := range resp.Events {
				if ev.Type == clientv3.EventTypeDelete { //mutant:own-key-watched
					return true
				}
			}
		case <-s.recheck:
			return false
		case <-s.Done():
			return false
		}
	}
}

// keyExists reads the key; next is the revision to watch from, 0 when nothing
// could be read.
func (s *Session) keyExists() (next int64, ok bool) {
	resp, err := s.store.Get(s.life, s.key)
	if err != nil {
		return 0, true
	}
	return resp.Header.Revision + 1, len(resp.Kvs) == 1 && /*mutant:own-key-incarnation*/ resp.Kvs[0].CreateRevision == s.createRev
}
