//go:build unix

package leasectl

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"
)

func TestFirstSignalEndsTheContextSecondAborts(t *testing.T) {
	ctx, s := watchSignals(t.Context())
	defer s.stop()
	raise := func(sig syscall.Signal, done <-chan struct{}) {
		t.Helper()
		if err := syscall.Kill(os.Getpid(), sig); err != nil {
			t.Fatal(err)
		}
		select {
		case <-done:
		case <-time.After(patience):
			t.Fatalf("%v had no effect", sig)
		}
	}
	raise(syscall.SIGTERM, ctx.Done())
	if got, want := errorText(context.Cause(ctx)), "interrupted by SIGTERM"; got != want {
		t.Errorf("cause %q, want %q", got, want)
	}
	if code, ok := interruptCode(ctx, ctx.Err()); !ok || code != 143 {
		t.Errorf("exit code %d, want 143", code)
	}
	select {
	case <-s.aborted:
		t.Error("the first signal aborted")
	default:
	}
	raise(syscall.SIGINT, s.aborted)
}

func TestStopWithoutSignal(t *testing.T) {
	ctx, s := watchSignals(t.Context())
	s.stop()
	if !errors.Is(context.Cause(ctx), context.Canceled) || interrupted(ctx) != nil {
		t.Errorf("cause %v, want a plain end", context.Cause(ctx))
	}
}
