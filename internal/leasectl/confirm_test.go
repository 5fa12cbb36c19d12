package leasectl

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestConfirm(t *testing.T) {
	var out bytes.Buffer
	a := &app{in: strings.NewReader("y\n"), err: &out}
	for _, m := range []*mutation{{yes: true}, {dryRun: true}} {
		if err := a.confirm(t.Context(), m, "delete %d jobs", 2); err != nil {
			t.Errorf("%+v: %v", m, err)
		}
	}
	// A pipe is nobody who could be asked, whatever it holds.
	for _, m := range []*mutation{{}, {noInput: true}} {
		if code := exitCode(a.confirm(t.Context(), m, "delete %d jobs", 2)); code != exitUsage {
			t.Errorf("%+v: exit code %d, want %d", m, code, exitUsage)
		}
	}
	if out.Len() != 0 {
		t.Errorf("asked %q", out.String())
	}
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	m := &mutation{}
	m.addFlags(f)
	if err := f.Parse([]string{"--yes", "--no-input", "--dry-run", "--reason", "r"}); err != nil || *m != (mutation{true, true, true, "r"}) {
		t.Errorf("parsed %+v, %v", m, err)
	}
}
