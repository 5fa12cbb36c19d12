//go:build !unix

package execjob

import (
	"io"
	"os"
	"os/exec"
)

// shareTerminal changes nothing: there are no process groups here.
func shareTerminal(*exec.Cmd, io.Reader) (restore func()) { return func() {} }

// signalNumber is 0: nothing ends by a signal here.
func signalNumber(*os.ProcessState) int { return 0 }
