//go:build unix

package execjob

import (
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// shareTerminal tells whether the command belongs into the foreground of the terminal that it reads from: a group in the
// background would be stopped at its first read. The function that it returns takes the terminal back.
func shareTerminal(in io.Reader) (foreground bool, restore func()) {
	f, ok := in.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return false, func() {}
	}
	if pgrp, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP); err != nil || pgrp != unix.Getpgrp() {
		return false, func() {} // leasectl itself is in the background
	}
	return true, func() {
		// Whoever changes the foreground from the background is stopped for it, unless it does not care.
		signal.Ignore(syscall.SIGTTOU)
		defer signal.Reset(syscall.SIGTTOU)
		_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.TIOCSPGRP, unix.Getpgrp())
	}
}
