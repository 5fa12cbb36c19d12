//go:build !unix

package leasectl

import "context"

// whileRead is ctx: here nothing tells that the reader of a pipe is gone.
func (a *app) whileRead(ctx context.Context) (reading context.Context, stop func()) {
	return ctx, func() {}
}
