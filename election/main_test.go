package election_test

import (
	"flag"
	"os"
	"testing"

	"github.com/leasekit/leasekit/integration/etcdtest"
)

func TestMain(m *testing.M) {
	if os.Getenv(candidateEnv) != "" {
		os.Exit(candidate())
	}
	// Most tests wait for leases to end, not for a processor.
	if err := flag.Set("test.parallel", "32"); err != nil {
		panic(err)
	}
	etcdtest.Main(m, etcdtest.Config{Proxies: true})
}
