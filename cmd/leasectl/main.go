// Command leasectl inspects, repairs and runs work that is coordinated through etcd. See leasectl help.
package main

import (
	"os"

	"github.com/leasekit/leasekit/internal/leasectl"
)

func main() {
	os.Exit(leasectl.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
