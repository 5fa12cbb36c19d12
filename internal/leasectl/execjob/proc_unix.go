//go:build unix

package execjob

import (
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// signalGroup sends SIGTERM or SIGKILL to the child's process group. A group that is gone needs no signal.
func signalGroup(p *os.Process, kill bool) {
	sig := syscall.SIGTERM
	if kill {
		sig = syscall.SIGKILL
	}
	_ = syscall.Kill(-p.Pid, sig)
}

// signalName names the signal that ended the process, or is empty.
func signalName(state *os.ProcessState) string {
	status, ok := state.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return ""
	}
	if name := unix.SignalName(status.Signal()); name != "" {
		return name
	}
	return "signal " + strconv.Itoa(int(status.Signal()))
}
