//go:build unix

package exit

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/leasekit/leasekit/internal/leasectl/clitest"
)

func TestFirstSignalEndsTheContextSecondAborts(t *testing.T) {
	ctx, s := WatchSignals(t.Context())
	defer s.Stop()
	raise := func(sig syscall.Signal, done <-chan struct{}) {
		t.Helper()
		if err := syscall.Kill(os.Getpid(), sig); err != nil {
			t.Fatal(err)
		}
		select {
		case <-done:
		case <-time.After(clitest.Patience):
			t.Fatalf("%v had no effect", sig)
		}
	}
	raise(syscall.SIGTERM, ctx.Done())
	if got, want := Text(context.Cause(ctx)), "interrupted by SIGTERM"; got != want {
		t.Errorf("cause %q, want %q", got, want)
	}
	if code, ok := SignalCode(ctx, ctx.Err()); !ok || code != 143 {
		t.Errorf("exit code %d, want 143", code)
	}
	select {
	case <-s.Aborted:
		t.Error("the first signal aborted")
	default:
	}
	raise(syscall.SIGINT, s.Aborted)
}

func TestStopWithoutSignal(t *testing.T) {
	ctx, s := WatchSignals(t.Context())
	s.Stop()
	if !errors.Is(context.Cause(ctx), context.Canceled) || Signal(ctx) != nil {
		t.Errorf("cause %v, want a plain end", context.Cause(ctx))
	}
}
