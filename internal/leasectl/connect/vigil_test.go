package connect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Silence is told once, after a while, and once more when it is over; what etcd itself answers is no silence.
func TestVigilTellsOfSilenceOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var told []string
		v := vigil{
			where: func(context.Context) string { return "http://e: connection refused" },
			tell: func(format string, args ...any) {
				told = append(told, fmt.Sprintf("%s "+format, append([]any{time.Since(begun)}, args...)...))
			},
			ask: func(ctx context.Context) error {
				switch at := time.Since(begun); {
				case at < 10*time.Second:
					return rpctypes.ErrPermissionDenied
				case at < 13*time.Second: // a hiccup
					return status.Error(codes.Unavailable, "connection refused")
				case at < 20*time.Second:
					return nil
				case at < 30*time.Second: // silent
					<-ctx.Done()
					return ctx.Err()
				case at < 40*time.Second: // refused
					return status.Error(codes.Unavailable, "connection refused")
				}
				return nil
			},
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		v.keep(ctx)
		want := []string{
			"24s no answer from etcd for 5s, waiting for it: http://e: connection refused",
			"40s etcd answers again, after 21s",
		}
		if !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}

// A verb that ends while etcd is silent says nothing of it any more.
func TestVigilEndsSilently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		v := vigil{
			tell: func(format string, args ...any) { t.Errorf(format, args...) },
			ask: func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			},
		}
		v.keep(ctx)
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Error("it ended by itself")
		}
	})
}

// A wait that has begun goes on over an outage; one that has not, or that is over, does not, nor does it over an answer.
func TestOutlast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := status.Error(codes.Unavailable, "connection refused")
		over := make(chan time.Time, 1)
		interrupt := errors.New("interrupted")
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(interrupt)
		begun := time.Now()
		if err := Outlast(t.Context(), true, over, away); err != nil || time.Since(begun) != vigilRest {
			t.Errorf("begun: %v after %v", err, time.Since(begun))
		}
		if err := Outlast(t.Context(), false, over, away); !errors.Is(err, away) {
			t.Errorf("not begun: %v", err)
		}
		if err := Outlast(t.Context(), true, over, rpctypes.ErrPermissionDenied); !errors.Is(err, rpctypes.ErrPermissionDenied) {
			t.Errorf("denied: %v", err)
		}
		if err := Outlast(ended, true, over, away); !errors.Is(err, interrupt) {
			t.Errorf("interrupted: %v", err)
		}
		over <- time.Now()
		if err := Outlast(t.Context(), true, over, away); !errors.Is(err, away) {
			t.Errorf("over: %v", err)
		}
	})
}

// A login that is refused now and then is no reason to end; one that is refused again and again is, once.
func TestVigilTellsThatTheLoginIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, asked := time.Now(), 0
		var refused []time.Duration
		v := vigil{
			refused: func(error) { refused = append(refused, time.Since(begun)) },
			tell:    func(format string, args ...any) { t.Errorf("told "+format, args...) },
			ask: func(context.Context) error {
				if asked++; asked < 10 && asked%3 == 0 {
					return rpctypes.ErrPermissionDenied
				}
				return rpctypes.ErrAuthFailed
			},
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		v.keep(ctx)
		if want := []time.Duration{12 * vigilRest}; !slices.Equal(refused, want) {
			t.Errorf("refused at %v, want %v", refused, want)
		}
	})
}
