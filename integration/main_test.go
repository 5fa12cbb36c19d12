package integration_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/leasekit/leasekit/integration/etcdtest"
)

// The flags of TestChaos. A run that went wrong is repeated, as far as it can be, by
// its seed.
var (
	seedFlag     = flag.Uint64("seed", 0, "what the chaos test draws its faults and jobs from; 0 draws a seed")
	durationFlag = flag.Duration("duration", 15*time.Second, "how long each chaos run is in trouble, at least; from 60s on every fault must have been reached")
	membersFlag  = flag.Int("members", 0, "members of the chaos test's etcd: 1 or 3; 0 runs both, each in one mode unless -duration is 60s or more")
	modeFlag     = flag.String("mode", "", "mode of the chaos test's queue: claim or dispatch; empty runs both")
)

// TestMain runs the tests, or, in a child process that a test has started from this
// binary, a worker.
func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(child())
	}
	if conf := os.Getenv(chaosEnv); conf != "" {
		os.Exit(chaosChild(conf))
	}
	etcdtest.Main(m, etcdtest.Config{})
}
