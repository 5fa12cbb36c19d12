//go:build unix && !linux

package execjob

import "syscall"

// procAttr gives the child a process group of its own. These systems have no parent-death signal.
func procAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// awaitExit reports that a process cannot be waited for without reaping it.
func awaitExit(int) bool { return false }
