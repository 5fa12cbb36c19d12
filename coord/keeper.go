package coord

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
)

// SessionKeeper keeps one live session for a process: when one is lost, it opens the
// next incarnation. Create it with [NewSessionKeeper] and Run it; share it among
// everything in the process that does work. Safe for concurrent use.
type SessionKeeper struct {
	cfg  SessionConfig
	open func(ctx context.Context) (*Session, error)

	mu      sync.Mutex
	current *Session
	changed chan struct{} // closed when current changes or Run ends
	ended   error
}

// NewSessionKeeper returns a keeper that opens sessions with cfg. It does not talk to
// etcd before Run.
func NewSessionKeeper(client *clientv3.Client, cfg SessionConfig) *SessionKeeper {
	cfg = cfg.withDefaults()
	return &SessionKeeper{
		cfg:     cfg,
		open:    func(ctx context.Context) (*Session, error) { return OpenSession(ctx, client, cfg) },
		changed: make(chan struct{}),
	}
}

// Run keeps a session alive until ctx ends, then closes it and returns nil, within
// about 3 s. It returns an error only for a configuration that can never work, when the client is
// closed, or when the first session is denied by etcd's roles; later ones are tried again. A session that
// was lost is closed behind its successor, once its claims are given up or its
// TTL has passed. When Run returns, every session is closed. Run it once.
func (m *SessionKeeper) Run(ctx context.Context) error {
	var closing sync.WaitGroup
	defer closing.Wait()
	err := m.keep(ctx, &closing)
	ended := err
	if ended == nil {
		ended = fmt.Errorf("session keeper %w", fault.ErrClosed)
	}
	m.publish(nil, ended)
	return err
}

// keep opens one session after the other. Those that fail to open or do not live
// for long are not replaced in a hot loop.
func (m *SessionKeeper) keep(ctx context.Context, closing *sync.WaitGroup) error {
	first := true
	for try := 0; ctx.Err() == nil; try++ {
		openCtx, cancel := context.WithTimeout(ctx, max(m.cfg.TTL, 5*time.Second))
		s, err := m.open(openCtx)
		cancel()
		switch {
		case err == nil:
			first = false
			opened := time.Now()
			m.hold(ctx, s, closing)
			if time.Since(opened) > m.cfg.TTL {
				try = 0
			}
		case fault.IsInvalid(err), errors.Is(err, fault.ErrClientClosed), first && etcdkv.IsDenied(err):
			return err
		case ctx.Err() == nil:
			m.cfg.Logger.Warn("open session", zap.Error(err))
		}
		_ = etcdkv.Pause(ctx, try) // a ctx that ended ends the loop
	}
	return nil
}

// hold publishes s until it is over or ctx ends, and has it closed behind.
func (m *SessionKeeper) hold(ctx context.Context, s *Session, closing *sync.WaitGroup) {
	m.publish(s, nil)
	select {
	case <-s.Done():
	case <-ctx.Done():
	}
	m.publish(nil, nil)
	closing.Go(func() { m.retire(ctx, s) })
}

// leaveWithin is how long a session may take to close once its keeper is to end; ending
// what is under way then takes up to a second more.
const leaveWithin = 2 * time.Second

// retire closes a session that is over. After a loss its holders get a TTL to
// give their claims up under the old fences first: a loss that is only the
// session's counts against no job.
func (m *SessionKeeper) retire(ctx context.Context, s *Session) {
	grace := time.NewTimer(s.TTL())
	defer grace.Stop()
	select {
	case <-s.book.Drained():
	case <-grace.C:
	case <-ctx.Done():
	}
	closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(s.TTL(), 2*time.Second))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(leaveWithin, cancel) })() //mutant:member-stop-bounded
	if err := s.Close(closeCtx); err != nil {
		m.cfg.Logger.Info("close session", zap.Error(err))
	}
}

// publish makes s the current session, or none, and wakes those who wait.
func (m *SessionKeeper) publish(s *Session, ended error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.current, m.ended = s, ended
	close(m.changed)
	m.changed = make(chan struct{})
}

// Session returns the live session, waiting for one if need be. The error is
// ctx's cause, or why Run ended. The session stays the keeper's: do not Close it.
func (m *SessionKeeper) Session(ctx context.Context) (*Session, error) {
	for {
		m.mu.Lock()
		s, changed, ended := m.current, m.changed, m.ended
		m.mu.Unlock()
		if ended != nil {
			return nil, ended
		}
		if s != nil && s.Err() == nil {
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fault.CauseOf(ctx)
		}
	}
}
