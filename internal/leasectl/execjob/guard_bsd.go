//go:build unix && !linux

package execjob

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// self is the path of this program.
func self() string {
	path, _ := os.Executable()
	return path
}

// procAttr gives the command a process group of its own. These systems have no parent-death signal.
func procAttr(foreground bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Foreground: foreground, Ctty: 0}
}

// seesOrphans tells that a job is its process group here.
const seesOrphans = false

// adoptOrphans changes nothing: these systems have no subreapers.
func adoptOrphans() {}

// children is empty: here a job is its process group.
func children() []int { return nil }

func dup2(from, to int) error { return unix.Dup2(from, to) }
