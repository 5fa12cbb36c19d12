//go:build unix

package execjob

import (
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// shareTerminal puts the command into the foreground of the terminal that it reads from: a group in the background would
// be stopped at its first read. The function that it returns takes the terminal back.
func shareTerminal(cmd *exec.Cmd, in io.Reader) (restore func()) {
	f, ok := in.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return func() {}
	}
	if pgrp, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP); err != nil || pgrp != unix.Getpgrp() {
		return func() {} // leasectl itself is in the background
	}
	cmd.SysProcAttr.Foreground = true
	cmd.SysProcAttr.Ctty = int(f.Fd())
	return func() {
		// Whoever changes the foreground from the background is stopped for it, unless it does not care.
		signal.Ignore(syscall.SIGTTOU)
		defer signal.Reset(syscall.SIGTTOU)
		_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.TIOCSPGRP, unix.Getpgrp())
	}
}

// signalNumber is the signal that ended the process, or 0.
func signalNumber(state *os.ProcessState) int {
	status, ok := state.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return 0
	}
	return int(status.Signal())
}
