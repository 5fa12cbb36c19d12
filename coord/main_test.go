package coord_test

import (
	"flag"
	"testing"

	"github.com/leasekit/leasekit/integration/etcdtest"
)

func TestMain(m *testing.M) {
	// Most tests wait for leases to end, not for a processor.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	etcdtest.Main(m, etcdtest.Config{Proxies: true})
}
