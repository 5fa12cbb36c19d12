package exit

import (
	"regexp"
	"strings"

	"github.com/leasekit/leasekit/internal/leasectl/escape"
)

// grpcPrefix is what gRPC puts before the message of a server; it tells a user nothing that the message does not.
var grpcPrefix = regexp.MustCompile(`rpc error: code = \w+ desc = `)

// Text is err in one line, in words that mean something outside of the program, and with nothing in it that a
// terminal obeys: errors name keys and texts that anybody may have written.
func Text(err error) string {
	text := grpcPrefix.ReplaceAllString(err.Error(), "")
	text = strings.ReplaceAll(text, "context deadline exceeded", "no answer in time")
	text = strings.ReplaceAll(text, "context canceled", "stopped")
	return escape.Text(strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; "))
}
