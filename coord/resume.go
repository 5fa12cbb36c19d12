package coord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
)

// resumeSession goes on with a session that another process left.
func resumeSession(ctx context.Context, store *etcdkv.Store, cfg SessionConfig) (*Session, error) {
	what := "resume session " + cfg.Resume
	if strings.Contains(cfg.Resume, "/") { // a session is named as its key is
		return nil, fmt.Errorf("%s: %w", what, &fault.InputError{Field: "session", Value: cfg.Resume, Reason: "it is <identity>.<16 hex digits>"})
	}
	rewound := store.Rewound()
	key := store.Keys().Session(cfg.Resume)
	resp, err := store.Get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if len(resp.Kvs) == 0 {
		return nil, fmt.Errorf("%s: %w: its key is gone", what, fault.ErrSessionLost)
	}
	var r sessionRecord
	if err := json.Unmarshal(resp.Kvs[0].Value, &r); err != nil || r.TTL <= 0 {
		return nil, fmt.Errorf("%s: %s holds no session record: %w", what, key, fault.ErrInvalid)
	}
	cfg.Identity = r.Identity
	ttl := time.Duration(r.TTL) * time.Second
	s := newSession(store, cfg, cfg.Resume, clientv3.LeaseID(resp.Kvs[0].Lease), ttl, rewound)
	s.createRev = resp.Kvs[0].CreateRevision
	if err := s.firstRenewal(ctx); err != nil {
		_ = s.Leave(ctx) // nothing was written
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	s.start()
	return s, nil
}

// Leave ends this process's part in the session and nothing else: it is renewed no
// more, but its lease runs on, and its key and claims stay, so that another
// process can resume it before the TTL is over. Done closes, with a cause that
// matches [ErrClosed]. What was handed to the lanes is settled first, and a claim that
// no caller has, since its answer was lost or comes too late, is given up. It is bounded
// by ctx and joins every goroutine of the session.
func (s *Session) Leave(ctx context.Context) error {
	s.mu.Lock()
	if s.closed != nil {
		s.mu.Unlock()
		return fmt.Errorf("leave session %s: %w", s.id, fault.ErrClosed)
	}
	s.closed = make(chan struct{})
	s.mu.Unlock()
	defer close(s.closed)
	s.end(fmt.Errorf("session left: %w", fault.ErrClosed))
	err := s.book.Leave(ctx)
	s.aside.close(ctx)
	err = errors.Join(err, s.committer.Drain(ctx))
	s.renewer.Close()
	s.wg.Wait()
	if err = errors.Join(err, s.committer.Close(ctx)); err != nil {
		return fmt.Errorf("leave session %s: %w", s.id, err)
	}
	return nil
}
