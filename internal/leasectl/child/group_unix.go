//go:build unix

package child

import (
	"os/exec"
	"syscall"
)

// setGroup keeps a terminal's Ctrl-C from the child: its parent stops it.
func setGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
