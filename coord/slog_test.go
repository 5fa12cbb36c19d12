package coord_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/inside"
)

// What a program logs with log/slog takes in what Leasekit logs.
func ExampleSlogLogger() {
	withoutTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	handler := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: withoutTime})
	cfg := coord.SessionConfig{Identity: "billing", Logger: coord.SlogLogger(handler)}
	cfg.Logger.Info("ready", zap.String("identity", cfg.Identity), zap.Duration("ttl", 10*time.Second))
	// Output: level=INFO msg=ready identity=billing ttl=10s
}

type point struct{ x, y int }

func (p point) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	enc.AddInt("x", p.x)
	enc.AddInt("y", p.y)
	return nil
}

func TestSlogLogger(t *testing.T) {
	var out bytes.Buffer
	attrs := func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	log := coord.SlogLogger(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: attrs}))
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tc := range []struct {
		name string
		do   func()
		want string
	}{
		{"debug", func() { log.Debug("m") }, `{"level":"DEBUG","msg":"m"}`},
		{"warn", func() { log.Warn("m") }, `{"level":"WARN","msg":"m"}`},
		{"error", func() { log.Error("m", zap.Error(io.EOF)) }, `{"level":"ERROR","msg":"m","error":"EOF"}`},
		{"above error", func() { log.DPanic("m") }, `{"level":"ERROR+4","msg":"m"}`},
		{"fields keep order and kind",
			func() {
				log.Info("m", zap.String("z", "s"), zap.Int("a", 1), zap.Uint8("u", 2), zap.Bool("b", true), zap.Float64("f", .5),
					zap.Duration("d", time.Second), zap.Time("at", at), zap.Strings("l", []string{"x"}), zap.Any("n", nil), zap.Skip())
			},
			`{"level":"INFO","msg":"m","z":"s","a":1,"u":2,"b":true,"f":0.5,"d":1000000000,"at":"2026-01-02T03:04:05Z","l":["x"],"n":null}`},
		{"objects", func() { log.Info("m", zap.Object("p", point{1, 2}), zap.Inline(point{3, 4})) }, `{"level":"INFO","msg":"m","p":{"x":1,"y":2},"x":3,"y":4}`},
		{"no error", func() { log.Info("m", zap.Error(nil)) }, `{"level":"INFO","msg":"m"}`},
		{"with", func() { log.With(zap.String("session", "s")).Info("m", zap.Int("a", 1)) }, `{"level":"INFO","msg":"m","session":"s","a":1}`},
		{"a namespace", func() { log.Info("m", zap.Int("a", 1), zap.Namespace("g"), zap.Int("b", 2)) }, `{"level":"INFO","msg":"m","a":1,"g":{"b":2}}`},
		{"with a namespace", func() { log.With(zap.Int("a", 1), zap.Namespace("g"), zap.Int("b", 2)).Info("m", zap.Int("c", 3)) },
			`{"level":"INFO","msg":"m","a":1,"g":{"b":2,"c":3}}`},
		{"a name", func() { log.Named("lanes").Info("m") }, `{"level":"INFO","msg":"m","logger":"lanes"}`},
	} {
		out.Reset()
		tc.do()
		if got := strings.TrimSpace(out.String()); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
		}
	}
}

// kept keeps the last record.
type kept struct {
	slog.Handler
	last *slog.Record
}

func (k kept) Handle(_ context.Context, r slog.Record) error {
	*k.last = r
	return nil
}

func TestSlogLoggerKeepsErrorsSourceAndStack(t *testing.T) {
	var last slog.Record
	h := kept{slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelWarn}), &last}
	log := coord.SlogLogger(h).WithOptions(zap.AddStacktrace(zap.ErrorLevel))
	if log.Info("nothing"); !last.Time.IsZero() || log.Core().Enabled(zap.InfoLevel) {
		t.Error("what the handler does not want was handed to it")
	}
	cause := &coord.InputError{Field: "f"}
	log.Error("m", zap.Error(cause))
	if s := last.Source(); s == nil || !strings.HasSuffix(s.File, "slog_test.go") {
		t.Errorf("source %+v", s)
	}
	var stack string
	var same bool
	last.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "error":
			err, _ := a.Value.Any().(error)
			same = errors.Is(err, coord.ErrInvalid)
		case "stack":
			stack = a.Value.String()
		}
		return true
	})
	if !same || !strings.Contains(stack, "TestSlogLoggerKeepsErrorsSourceAndStack") {
		t.Errorf("the error is itself: %v; stack %q", same, stack)
	}
	if err := log.Sync(); err != nil {
		t.Error(err)
	}
	coord.SlogLogger(nil).Error("nothing")
}

// What a session has to say arrives.
func TestSessionLogsToSlog(t *testing.T) {
	var out bytes.Buffer
	cfg := coord.SessionConfig{Root: etcdtest.Root(t), Logger: coord.SlogLogger(slog.NewTextHandler(&out, nil))}
	s, err := coord.OpenSession(within(t), etcdtest.Shared(t).Client(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	inside.Of(s).LetLapse(within(t), "")
	if err := s.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, `level=WARN msg="session over" session=`+s.ID()) {
		t.Errorf("got %s", got)
	}
}
