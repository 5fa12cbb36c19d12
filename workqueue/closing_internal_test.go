package workqueue

import (
	"context"
	"testing"
	"time"
)

// A result that comes in when draining is over has all of Grace to arrive, however
// long its handler took.
func TestALateClosingWriteHasItsOwnGrace(t *testing.T) {
	w := &Worker{q: &Queue{life: t.Context()}, cfg: WorkerConfig{Grace: time.Hour}}
	var stop context.CancelFunc
	w.hard, w.hardStop = context.WithCancelCause(t.Context())
	w.last, stop = context.WithCancel(t.Context())
	ctx, cancel := w.closingContext()
	if ends, _ := ctx.Deadline(); time.Until(ends) > closeTimeout {
		t.Errorf("a closing write is waited for until %v", ends)
	}
	w.hardStop(ErrDraining)
	stop() // Grace after that
	if ctx.Err() == nil {
		t.Error("a closing write is waited for beyond the grace after draining")
	}
	cancel()
	ctx, cancel = w.closingContext()
	defer cancel()
	if ends, ok := ctx.Deadline(); ctx.Err() != nil || !ok || time.Until(ends) < closeTimeout || time.Until(ends) > time.Hour {
		t.Errorf("a late closing write is waited for until %v, %v", ends, ctx.Err())
	}
}
