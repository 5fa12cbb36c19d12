package leasectl

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/leasekit/leasekit/internal/leasectl/escape"
)

// grpcPrefix is what gRPC puts before the message of a server; it tells a user nothing that the message does not.
var grpcPrefix = regexp.MustCompile(`rpc error: code = \w+ desc = `)

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

// errorText is err in one line, in words that mean something outside of the program, and with nothing in it that a
// terminal obeys: errors name keys and texts that anybody may have written.
func errorText(err error) string {
	text := grpcPrefix.ReplaceAllString(err.Error(), "")
	text = strings.ReplaceAll(text, "context deadline exceeded", "no answer in time")
	text = strings.ReplaceAll(text, "context canceled", "stopped")
	return escape.Text(strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; "))
}
