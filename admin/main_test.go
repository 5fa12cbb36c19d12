package admin_test

import (
	"testing"

	"github.com/leasekit/leasekit/integration/etcdtest"
)

func TestMain(m *testing.M) { etcdtest.Main(m, etcdtest.Config{}) }
