//go:build !unix

package execjob

import (
	"os"
	"syscall"
)

// procAttr changes nothing: there are no process groups here.
func procAttr() *syscall.SysProcAttr { return nil }

// awaitExit reports that a process cannot be waited for without reaping it.
func awaitExit(int) bool { return false }

// signalGroup kills the child; there is no gentler way, and no group.
func signalGroup(p *os.Process, _ bool) { _ = p.Kill() }

// signalName is empty: nothing ends by a signal here.
func signalName(*os.ProcessState) string { return "" }
