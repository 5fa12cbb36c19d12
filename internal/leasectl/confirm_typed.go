package leasectl

import (
	"context"
	"fmt"
	"strings"

	"github.com/leasekit/leasekit/internal/leasectl/escape"
)

// confirmTyped wants a name to be typed before something that cannot be taken back. statement says what it is; what says
// which name. It returns as confirm does.
func (a *app) confirmTyped(ctx context.Context, m *mutation, what, name, statement string) error {
	if m.yes || m.dryRun {
		return nil
	}
	if m.noInput || !isTerminal(a.in) {
		return usagef("the same with --yes", "%s: it needs a confirmation", statement)
	}
	fmt.Fprintf(a.err, "%s. Type the %s to confirm: ", escape.Text(statement), what)
	answer, err := a.answer(ctx)
	if ctx.Err() != nil {
		return err
	}
	if typed := strings.TrimSpace(answer); err == nil && (typed == name || typed == escape.Name(name, "")) {
		return nil
	}
	return &failure{code: exitFailed, err: fmt.Errorf("%s: not confirmed, nothing changed", statement)}
}
