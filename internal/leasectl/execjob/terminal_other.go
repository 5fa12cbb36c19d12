//go:build !unix

package execjob

import "io"

// shareTerminal changes nothing: there are no process groups here.
func shareTerminal(io.Reader) (foreground bool, restore func()) { return false, func() {} }
