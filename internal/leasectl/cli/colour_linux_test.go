package cli

import (
	"bytes"
	"testing"

	"github.com/leasekit/leasekit/internal/leasectl/clitest"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
)

// Left alone, colours go to terminals only, and not against NO_COLOR or a dumb one.
func TestColoursAreForTerminals(t *testing.T) {
	_, screen := clitest.Terminal(t)
	for _, tt := range []struct {
		env  map[string]string
		mode string
		want bool
	}{
		{nil, "auto", true}, {nil, "", true}, {nil, "never", false}, {map[string]string{"NO_COLOR": "1"}, "auto", false},
		{map[string]string{"TERM": "dumb"}, "auto", false}, {map[string]string{"NO_COLOR": "1"}, "always", true},
	} {
		a := &App{Getenv: func(name string) string { return tt.env[name] }, Settings: connect.Settings{Colour: tt.mode}}
		if got := a.Colourful(screen); got != tt.want {
			t.Errorf("%v, --color %q: %v on a terminal, want %v", tt.env, tt.mode, got, tt.want)
		}
		if got := a.Colourful(&bytes.Buffer{}); got != (tt.mode == "always") {
			t.Errorf("%v, --color %q: %v into a buffer", tt.env, tt.mode, got)
		}
	}
}
