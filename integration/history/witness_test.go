package history_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/integration/history"
)

const patience = 60 * time.Second

func bounded(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func witness(t testing.TB, cl *clientv3.Client, cfg history.WitnessConfig) *history.Witness {
	t.Helper()
	w, err := history.StartWitness(t.Context(), cl, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func put(t testing.TB, cl *clientv3.Client, key string, opts ...clientv3.OpOption) int64 {
	t.Helper()
	resp, err := cl.Put(bounded(t), key, "v", opts...)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header.Revision
}

// A witness loses nothing over restarts of its member and severed connections, and
// sees what lies outside the root where it is told to.
func TestWitnessReconnects(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, etcdtest.Config{Proxies: true})
	cl := c.Client(t)
	w := witness(t, c.ProxiedClient(t), history.WitnessConfig{Root: "/h/", Also: []string{"/caller/"}})
	var last int64
	for i := range 6 {
		put(t, cl, fmt.Sprintf("/h/k%d", i%3))
		put(t, cl, "/elsewhere/x")
		last = put(t, cl, "/caller/x")
		switch i {
		case 1, 3:
			c.Proxy(0).Sever()
		case 2:
			c.Member(0).Stop()
			if err := c.Member(0).Restart(bounded(t)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.WaitSeen(bounded(t), last); err != nil {
		t.Fatal(err)
	}
	if got := len(w.Events()); got != 12 {
		t.Errorf("got %d events, want 12", got)
	}
	final, err := history.ReadFinal(bounded(t), cl, "/h/", "/caller/")
	if err != nil || len(final.KVs) != 4 || final.Revision != last {
		t.Errorf("got %v, %v", final, err)
	}
	if w.Seen() < last || w.Compactable() != last {
		t.Errorf("seen %d, compactable %d, want %d", w.Seen(), w.Compactable(), last)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

// What is written to other roots alone is progress too.
func TestWitnessSeesQuietRoots(t *testing.T) {
	t.Parallel()
	cl := etcdtest.Shared(t).Client(t)
	w := witness(t, cl, history.WitnessConfig{Root: etcdtest.Root(t)})
	if err := w.WaitSeen(bounded(t), put(t, cl, etcdtest.Root(t)+"x")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := w.WaitSeen(ctx, 1<<40); err == nil || !strings.Contains(err.Error(), "it is at") {
		t.Errorf("a wait for what does not come: got %v", err)
	}
}

// A hole in the history is told, and compactions up to what was seen make none.
func TestWitnessAndCompaction(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, etcdtest.Config{Proxies: true})
	cl := c.Client(t)
	put(t, cl, "/h/k")
	w := witness(t, c.ProxiedClient(t), history.WitnessConfig{Root: "/h/"})
	if err := w.WaitSeen(bounded(t), put(t, cl, "/h/k")); err != nil {
		t.Fatal(err)
	}
	if _, err := cl.Compact(bounded(t), w.Compactable()); err != nil {
		t.Fatal(err)
	}
	c.Proxy(0).Sever()
	if err := w.WaitSeen(bounded(t), put(t, cl, "/h/k")); err != nil {
		t.Fatalf("after a compaction up to what was seen: %v", err)
	}
	c.Proxy(0).Refuse()
	c.Proxy(0).Sever()
	put(t, cl, "/h/k")
	last := put(t, cl, "/h/k")
	if _, err := cl.Compact(bounded(t), last); err != nil {
		t.Fatal(err)
	}
	c.Proxy(0).Heal()
	if err := w.WaitSeen(bounded(t), last); err == nil || !strings.Contains(err.Error(), "hole") {
		t.Errorf("got %v, want a hole", err)
	}
	if w.Close() == nil {
		t.Error("Close forgets the hole")
	}
}

func TestWitnessWantsARoot(t *testing.T) {
	if _, err := history.StartWitness(t.Context(), nil, history.WitnessConfig{Root: "/h"}); err == nil {
		t.Error("a root without its slash passes")
	}
}
