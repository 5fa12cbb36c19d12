package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
)

// Mutation holds the flags of every verb that writes.
type Mutation struct {
	Yes     bool
	noInput bool
	DryRun  bool
	Reason  string
}

// AddFlags declares the flags; the verb puts reason into what it writes and honours DryRun.
func (m *Mutation) AddFlags(f *pflag.FlagSet) {
	m.AddTracelessFlags(f)
	f.StringVar(&m.Reason, "reason", "", "keep `TEXT` with the change")
}

// AddTracelessFlags is addFlags for a verb that leaves nothing a reason could be kept with.
func (m *Mutation) AddTracelessFlags(f *pflag.FlagSet) {
	f.BoolVar(&m.Yes, "yes", false, "do not ask")
	f.BoolVar(&m.noInput, "no-input", false, "never ask: fail where a question would need an answer")
	f.BoolVar(&m.DryRun, "dry-run", false, "say what would be done, and change nothing")
}

// Would begins what is told of a change: with --dry-run it is one that is not made.
func (m *Mutation) Would() string {
	if m.DryRun {
		return "would "
	}
	return ""
}

// Confirm asks a yes-or-no question on stderr before something that is hard to take back. It returns nil for yes, a
// usage error where nobody can be asked, a plain error for no, and the cause of a ctx that ended meanwhile.
func (a *App) Confirm(ctx context.Context, m *Mutation, format string, args ...any) error {
	if m.Yes || m.DryRun {
		return nil
	}
	question := fmt.Sprintf(format, args...)
	if m.noInput || !output.IsTerminal(a.In) {
		return exit.Usagef("the same with --yes", "%s needs a confirmation", question)
	}
	fmt.Fprintf(a.Err, "%s? [y/N] ", escape.Text(question))
	answer, err := a.answer(ctx)
	switch {
	case ctx.Err() != nil:
		return err
	case err != nil:
		return exit.Usagef("the same with --yes", "%s needs a confirmation", question)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return &exit.Error{Code: exit.Failed, Err: fmt.Errorf("%s: not confirmed, nothing changed", question)}
}

// MaxReason is how much of a reason the library keeps, in bytes.
const MaxReason = 256

// ConfirmTyped wants a name to be typed before something that cannot be taken back. statement says what it is; what says
// which name. It returns as confirm does.
func (a *App) ConfirmTyped(ctx context.Context, m *Mutation, what, name, statement string) error {
	if m.Yes || m.DryRun {
		return nil
	}
	if m.noInput || !output.IsTerminal(a.In) {
		return exit.Usagef("the same with --yes", "%s: it needs a confirmation", statement)
	}
	fmt.Fprintf(a.Err, "%s. Type the %s to confirm: ", escape.Text(statement), what)
	answer, err := a.answer(ctx)
	if ctx.Err() != nil {
		return err
	}
	if typed := strings.TrimSpace(answer); err == nil && (typed == name || typed == escape.Name(name, "")) {
		return nil
	}
	return &exit.Error{Code: exit.Failed, Err: fmt.Errorf("%s: not confirmed, nothing changed", statement)}
}
