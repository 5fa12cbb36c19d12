package integration_test

import (
	"os"
	"testing"

	"github.com/leasekit/leasekit/integration/etcdtest"
)

// TestMain runs the tests, or, in a child process that a test has started from this
// binary, a worker.
func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(child())
	}
	etcdtest.Main(m, etcdtest.Config{})
}
