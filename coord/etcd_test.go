package coord_test

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/faultproxy"
	"github.com/leasekit/leasekit/internal/inside"
)

// within turns a hang into a failure, nothing else.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// done waits for a channel to be closed.
func done(t testing.TB, what string, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-within(t).Done():
		t.Fatalf("%s: never happened", what)
	}
}

// open opens a session under a root of its own, unless cfg names one, and closes
// it in the end.
func open(t testing.TB, client *clientv3.Client, cfg coord.SessionConfig) *coord.Session {
	t.Helper()
	if cfg.Root == "" {
		cfg.Root = etcdtest.Root(t)
	}
	s, err := coord.OpenSession(within(t), client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.Close(ctx) // tests that care close it themselves
	})
	return s
}

// openPatiently is open for a TTL that is short for a busy machine: what was lost
// before it was opened is tried again.
func openPatiently(t testing.TB, client *clientv3.Client, cfg coord.SessionConfig) *coord.Session {
	t.Helper()
	cfg.Root = etcdtest.Root(t)
	for ctx := within(t); ; {
		s, err := coord.OpenSession(ctx, client, cfg)
		if err == nil {
			t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				defer cancel()
				_ = s.Close(ctx) // its link may be silent
			})
			return s
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

func newStore(t testing.TB, client *clientv3.Client, root string) *etcdkv.Store {
	t.Helper()
	store, err := etcdkv.NewStore(client, root, nil)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// proxyBefore starts a proxy before each target; client goes through them.
func proxyBefore(t testing.TB, targets ...string) (proxies []*faultproxy.Proxy, endpoints []string) {
	t.Helper()
	for _, target := range targets {
		p, err := faultproxy.New(target)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() })
		proxies, endpoints = append(proxies, p), append(endpoints, p.Endpoint())
	}
	return proxies, endpoints
}

// leadership is the claim on which package election stands.
func leadership(s *coord.Session, name string) *coord.Lock {
	return inside.Of(s).Leadership(name).(*coord.Lock)
}

// keyOf is the key of a session.
func keyOf(s *coord.Session) string { return inside.Of(s).Store().Keys().Session(s.ID()) }

// deletion watches key through client; the channel gets the moment at which its
// DELETE was seen.
func deletion(t testing.TB, client *clientv3.Client, key string) <-chan time.Time {
	t.Helper()
	seen := make(chan time.Time, 1)
	watch := client.Watch(within(t), key, clientv3.WithCreatedNotify())
	if resp := <-watch; !resp.Created {
		t.Fatalf("watch %s: %v", key, resp.Err())
	}
	go func() {
		for resp := range watch {
			for _, ev := range resp.Events {
				if ev.Type == clientv3.EventTypeDelete {
					seen <- time.Now()
					return
				}
			}
		}
	}()
	return seen
}

// revision is the store's revision now.
func revision(t testing.TB, client *clientv3.Client) int64 {
	t.Helper()
	resp, err := client.Get(within(t), "x")
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header.Revision
}

func wantErr(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got error %v, want %v", what, got, want)
	}
}

// wantAlive fails when the session is over.
func wantAlive(t testing.TB, s *coord.Session) {
	t.Helper()
	if err := s.Err(); err != nil {
		t.Errorf("session %s: %v", s.ID(), err)
	}
}
