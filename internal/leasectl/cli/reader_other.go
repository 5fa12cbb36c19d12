//go:build !unix

package cli

import "context"

// WhileRead is ctx: here nothing tells that the reader of a pipe is gone.
func (a *App) WhileRead(ctx context.Context) (reading context.Context, stop func()) {
	return ctx, func() {}
}
