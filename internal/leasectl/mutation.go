package leasectl

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/leasekit/leasekit/internal/leasectl/escape"
)

// mutation holds the flags of every verb that writes.
type mutation struct {
	yes     bool
	noInput bool
	dryRun  bool
	reason  string
}

// addFlags declares the flags; the verb puts reason into what it writes and honours dryRun.
func (m *mutation) addFlags(f *pflag.FlagSet) {
	m.addTracelessFlags(f)
	f.StringVar(&m.reason, "reason", "", "keep `TEXT` with the change")
}

// addTracelessFlags is addFlags for a verb that leaves nothing a reason could be kept with.
func (m *mutation) addTracelessFlags(f *pflag.FlagSet) {
	f.BoolVar(&m.yes, "yes", false, "do not ask")
	f.BoolVar(&m.noInput, "no-input", false, "never ask: fail where a question would need an answer")
	f.BoolVar(&m.dryRun, "dry-run", false, "say what would be done, and change nothing")
}

// confirm asks a yes-or-no question on stderr before something that is hard to take back. It returns nil for yes, a
// usage error where nobody can be asked, a plain error for no, and the cause of a ctx that ended meanwhile.
func (a *app) confirm(ctx context.Context, m *mutation, format string, args ...any) error {
	if m.yes || m.dryRun {
		return nil
	}
	question := fmt.Sprintf(format, args...)
	if m.noInput || !isTerminal(a.in) {
		return usagef("the same with --yes", "%s needs a confirmation", question)
	}
	fmt.Fprintf(a.err, "%s? [y/N] ", escape.Text(question))
	answer, err := a.answer(ctx)
	switch {
	case ctx.Err() != nil:
		return err
	case err != nil:
		return usagef("the same with --yes", "%s needs a confirmation", question)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return &failure{code: exitFailed, err: fmt.Errorf("%s: not confirmed, nothing changed", question)}
}

// maxReason is how much of a reason the library keeps, in bytes.
const maxReason = 256
