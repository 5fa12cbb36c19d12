package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/leasekit/leasekit/internal/leasectl/escape"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
)

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
