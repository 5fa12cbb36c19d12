package workqueue_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/workqueue"
)

// counted wraps a handler as middleware does.
type counted struct{ workqueue.Handler }

func (c counted) Unwrap() workqueue.Handler { return c.Handler }

func knowing(kind string) *workqueue.Mux {
	mux := workqueue.NewMux()
	mux.Register(kind, workqueue.HandlerFunc(func(context.Context, *workqueue.Claim) ([]byte, error) { return nil, nil }))
	return mux
}

// Whatever wraps a Mux, jobs of kinds that it does not know are neither failed nor
// buried, and another worker gets them.
func TestWrappersOfAMuxCostNoStrangersJob(t *testing.T) {
	t.Parallel()
	mux := knowing("known")
	for name, tc := range map[string]struct {
		h    workqueue.Handler
		left bool // alone, not even claimed
	}{
		"unwraps":       {counted{mux}, true},
		"unwraps twice": {counted{counted{mux}}, true},
		"method value":  {workqueue.HandlerFunc(mux.Handle), false},
		"opaque":        {struct{ workqueue.Handler }{mux}, false},
		"wraps errors": {workqueue.HandlerFunc(func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
			b, err := mux.Handle(ctx, c)
			if err != nil {
				err = errors.Join(errors.New("middleware"), err)
			}
			return b, err
		}), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cl, root := shared(t)
			core, logs := observer.New(zapcore.WarnLevel)
			q := openAt(t, cl, workqueue.Config{Root: root, Logger: zap.New(core)})
			runHandler(t, q, workqueue.WorkerConfig{Concurrency: 1}, tc.h)
			enqueue(t, q, workqueue.Params{ID: "other", Kind: "unknown", Priority: 5, AtMostOnce: true, MaxAttempts: 1}, workqueue.Params{ID: "mine", Kind: "known"})
			wait(t, q, "mine")
			if !tc.left {
				until(t, cl, root, "the stranger is put off", func() bool { return get(t, q, "other").State == workqueue.StateScheduled })
			}
			j := get(t, q, "other")
			if !j.State.Live() || j.Failures != 0 || tc.left != (j.State == workqueue.StateReady && j.Attempt == 0) {
				t.Errorf("got %s, %d failures, %d attempts", j.State, j.Failures, j.Attempt)
			}
			if tc.left {
				return
			}
			if text := j.Attempts[0].Error; !strings.Contains(text, `no handler for kind "unknown"`) || !strings.Contains(text, "Kinds") {
				t.Errorf("no hint in %q", text)
			}
			if pause := time.Until(j.RunAt); pause <= 0 || pause > time.Minute {
				t.Errorf("it is put off for %v", pause)
			}
			until(t, cl, root, "it is logged", func() bool { return logs.FilterMessage("attempt put off").Len() == 1 })
		})
	}
	cl, root := shared(t)
	q := openAt(t, cl, workqueue.Config{Root: root})
	for _, h := range []workqueue.Handler{counted{workqueue.NewMux()}, panicking{}} {
		if _, err := workqueue.NewWorker(q, h, workqueue.WorkerConfig{}); !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("%T: got %v", h, err)
		}
	}
}

// panicking is a handler that cannot tell its kinds.
type panicking struct{ workqueue.Handler }

func (panicking) Kinds() []string { panic("kinds") }
