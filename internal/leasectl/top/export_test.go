package top

import (
	"context"

	tea "charm.land/bubbletea/v2"
)

// PaceForTest runs pace until stop is called, and closes ended then.
func PaceForTest(ctx context.Context, r *Recorder, send func(tea.Msg), ended chan struct{}) (stop func()) {
	ctx, stop = context.WithCancel(ctx)
	go func() {
		defer close(ended)
		pace(ctx, r, send)
	}()
	return stop
}
