package execjob

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// procAttr gives the child a process group of its own and lets the kernel kill it when leasectl dies.
func procAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit blocks until the process has ended, without reaping it: until then its number, which is also its group's,
// belongs to nobody else. False means that this cannot be done.
func awaitExit(pid int) bool {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err == nil {
			return true
		}
		if !errors.Is(err, unix.EINTR) {
			return false
		}
	}
}
