package leasectl

import (
	"fmt"
	"io"

	"github.com/leasekit/leasekit/internal/leasectl/escape"
)

// app is what the verbs of one invocation share.
type app struct {
	in     io.Reader
	out    io.Writer
	err    io.Writer
	getenv func(string) string

	settings settings
	shaper   *shaper // of what is printed as JSON; nil without --jq and template
	need     need    // of the command that runs

	// aborted is closed by the second signal that asks for the end.
	aborted <-chan struct{}
}

// printError writes the one line that a failed command leaves on stderr:
// leasectl: what failed: cause; try: next command.
func (a *app) printError(err error) {
	_, try := explain(err)
	name := "leasectl:"
	if a.colourful(a.err) {
		name = "\x1b[1;31mleasectl:\x1b[0m"
	}
	line := name + " " + errorText(err)
	if try != "" {
		line += "; try: " + escape.Text(try)
	}
	fmt.Fprintln(a.err, line)
}
