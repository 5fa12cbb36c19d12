package etcdkv

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/leasekit/leasekit/internal/fault"
)

// Pause waits before retry number try (from 0): 25 ms doubling to 1 s, with
// jitter, or until ctx ends.
func Pause(ctx context.Context, try int) error {
	d := min(25*time.Millisecond<<min(try, 6), time.Second)
	d = d/2 + rand.N(d)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return fault.CauseOf(ctx)
	case <-t.C:
		return nil
	}
}

// Sleep waits for d; false means that ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// BoundedCleanup is a short context of its own for what must be tried even after
// the caller's time is over.
func BoundedCleanup(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(context.WithoutCancel(ctx), 250*time.Millisecond)
}
