package embedetcd_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/internal/embedetcd"
)

// TestMain looks for leaked goroutines for longer than goleak does by itself;
// see "Goroutines after Close" in doc.go.
func TestMain(m *testing.M) {
	code := m.Run()
	leak := goleak.Find()
	for end := time.Now().Add(10 * time.Second); leak != nil && time.Now().Before(end); {
		leak = goleak.Find() // each takes its time before it gives up
	}
	if leak != nil && code == 0 {
		fmt.Fprintln(os.Stderr, leak)
		code = 1
	}
	os.Exit(code)
}

// deadline is generous: it turns a hang into a failure, nothing else.
const deadline = 60 * time.Second

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T, cfg embedetcd.Config) *embedetcd.Cluster {
	t.Helper()
	c, err := embedetcd.Start(within(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

func client(t *testing.T, endpoints ...string) *clientv3.Client {
	t.Helper()
	cl, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cl.Close() })
	return cl
}

func put(t *testing.T, cl *clientv3.Client, key, val string) {
	t.Helper()
	if _, err := cl.Put(within(t), key, val); err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
}

func wantValue(t *testing.T, cl *clientv3.Client, key, want string) {
	t.Helper()
	resp, err := cl.Get(within(t), key)
	if err != nil {
		t.Fatalf("get %s: %v", key, err)
	}
	if len(resp.Kvs) != 1 || string(resp.Kvs[0].Value) != want {
		t.Fatalf("get %s: got %v, want value %q", key, resp.Kvs, want)
	}
}
