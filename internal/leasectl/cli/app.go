// Package cli is what the verbs of leasectl share: flags and arguments, what a verb does to the cluster and whether that is
// permitted, questions, lists, and the way to etcd.
package cli

import (
	"fmt"
	"io"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
)

// App is what the verbs of one invocation share.
type App struct {
	In     io.Reader
	Out    io.Writer
	Err    io.Writer
	Getenv func(string) string

	Settings connect.Settings
	Shaper   *output.Shaper // of what is printed as JSON; nil without --jq and template
	Need     Need           // of the command that runs

	// Aborted is closed by the second signal that asks for the end.
	Aborted <-chan struct{}
}

// PrintError writes the one line that a failed command leaves on stderr:
// leasectl: what failed: cause; try: next command.
func (a *App) PrintError(err error) {
	_, try := exit.Explain(err)
	name := "leasectl:"
	if a.Colourful(a.Err) {
		name = "\x1b[1;31mleasectl:\x1b[0m"
	}
	line := name + " " + exit.Text(err)
	if try != "" {
		line += "; try: " + escape.Text(try)
	}
	fmt.Fprintln(a.Err, line)
}
