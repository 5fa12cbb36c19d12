package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

func TestConfirm(t *testing.T) {
	var out bytes.Buffer
	a := &App{In: strings.NewReader("y\n"), Err: &out}
	for _, m := range []*Mutation{{Yes: true}, {DryRun: true}} {
		if err := a.Confirm(t.Context(), m, "delete %d jobs", 2); err != nil {
			t.Errorf("%+v: %v", m, err)
		}
	}
	// A pipe is nobody who could be asked, whatever it holds.
	for _, m := range []*Mutation{{}, {noInput: true}} {
		if code := exit.Code(a.Confirm(t.Context(), m, "delete %d jobs", 2)); code != exit.Usage {
			t.Errorf("%+v: exit code %d, want %d", m, code, exit.Usage)
		}
	}
	if out.Len() != 0 {
		t.Errorf("asked %q", out.String())
	}
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	m := &Mutation{}
	m.AddFlags(f)
	if err := f.Parse([]string{"--yes", "--no-input", "--dry-run", "--reason", "r"}); err != nil || *m != (Mutation{true, true, true, "r"}) {
		t.Errorf("parsed %+v, %v", m, err)
	}
}
