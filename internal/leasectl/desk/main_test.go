package desk

import (
	"os"
	"testing"

	"github.com/leasekit/leasekit/internal/leasectl/clitest"
)

func TestMain(m *testing.M) { os.Exit(clitest.Run(m)) }
