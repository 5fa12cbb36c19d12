package etcdtest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// leakPatience is how long goroutines may take to end after the last test. A
// cluster of three needs it: etcd's peer connections can outlive their server
// by their read timeout of 5 s. With one member the check is over at once.
const leakPatience = 15 * time.Second

// shared is the cluster of the package under test. It starts with the first
// test that wants it, so that running one test of pure logic stays instant.
var shared struct {
	sync.Mutex
	main    bool
	cfg     Config
	cluster *Cluster
	err     error
}

// roots numbers the roots that Root has given out.
var roots atomic.Int64

// Main runs the tests of a package from its TestMain and ends the process. It
// gives Shared its cluster, made as cfg says, and fails the package when tests
// passed but left goroutines running. No goroutine is exempt from that: etcd,
// its client and gRPC end all of theirs.
func Main(m *testing.M, cfg Config) {
	shared.Lock()
	shared.main, shared.cfg = true, cfg
	shared.Unlock()
	code := m.Run()
	if err := closeShared(); err != nil {
		fmt.Fprintf(os.Stderr, "etcdtest: stop the shared etcd: %v\n", err)
		code = max(code, 1)
	}
	if err := findLeaks(); err != nil && code == 0 {
		fmt.Fprintf(os.Stderr, "etcdtest: tests passed but left goroutines behind: %v\n", err)
		code = 1
	}
	os.Exit(code)
}

// Shared returns the cluster that all tests of the package share; the first
// call starts it. Tests must not stop its members, and keep to their Root. t
// fails at once if TestMain does not call Main or the cluster cannot start.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if !shared.main {
		t.Fatal("etcdtest.Shared: TestMain must call etcdtest.Main")
	}
	if shared.cluster == nil && shared.err == nil {
		// Not t's ctx: the cluster outlives t.
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		shared.cluster, shared.err = Start(ctx, shared.cfg)
		cancel()
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.cluster
}

func closeShared() error {
	shared.Lock()
	defer shared.Unlock()
	shared.main = false
	if shared.cluster == nil {
		return nil
	}
	return shared.cluster.Close()
}

// Root returns a key prefix that no other call gets, with t's name in it for
// whoever reads the keys: "/t/TestClaim-by-two-7/".
func Root(t testing.TB) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_':
			return r
		}
		return '-'
	}, t.Name())
	return fmt.Sprintf("/t/%s-%d/", name, roots.Add(1))
}

// findLeaks looks again and again, because goroutines that were told to end
// take their time. Each look waits a little before it reports anything.
func findLeaks() error {
	deadline := time.Now().Add(leakPatience)
	for {
		err := goleak.Find()
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
