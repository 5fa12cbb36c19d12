package workqueue

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/leasekit/leasekit/coord"
)

// A repeat that is refused by what its own first try did, and cannot read that any
// more, does not know.
func TestARefusalThatNobodyCanReadIsNoRefusalOfARepeat(t *testing.T) {
	other := errors.New("other")
	for _, tt := range []struct {
		name    string
		err     error
		unsure  bool
		unknown bool
	}{
		{"refused at the first try", coord.ErrRefused, false, false},
		{"refused at a repeat", coord.ErrRefused, true, true},
		{"something else at a repeat", other, true, false},
	} {
		err := stillUnknown(tt.err, tt.unsure)
		if got := errors.Is(err, coord.ErrUnknown); got != tt.unknown || !errors.Is(err, tt.err) {
			t.Errorf("%s: got %v", tt.name, err)
		}
	}
}

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
