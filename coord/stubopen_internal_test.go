package coord

import (
	"context"
	"testing"
	"time"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/stubetcd"
)

// openOn opens a session with the stub's TTL.
func openOn(t *testing.T, e *stubetcd.Etcd, cfg SessionConfig) *Session {
	t.Helper()
	s, err := tryOpenOn(t.Context(), e, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func tryOpenOn(ctx context.Context, e *stubetcd.Etcd, cfg SessionConfig) (*Session, error) {
	cfg.TTL = time.Duration(e.TTL) * time.Second
	keys, err := keyspace.New("")
	if err != nil {
		return nil, err
	}
	return openSession(ctx, etcdkv.NewStoreOn(e, keys, nil), cfg.withDefaults())
}
