// Command leasectl inspects, repairs and runs work that is coordinated through etcd. See leasectl help.
package main

import (
	"os"
	"runtime/debug"

	"github.com/leasekit/leasekit/internal/leasectl"
)

func main() {
	// What leasectl runs is small and short-lived: it collects garbage less often than
	// is usual, within a bound. GOGC and GOMEMLIMIT still win.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(1 << 30)
	}
	os.Exit(leasectl.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
