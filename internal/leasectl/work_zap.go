package leasectl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// zap is where the libraries tell what no caller sees, in the words of this log. The same trouble comes many times a
// second: each kind is told once in a while.
func (l *workLog) zap() *zap.Logger {
	return zap.New(zapcore.NewSamplerWithOptions(plainCore{log: l}, 10*time.Second, 1, 0))
}

// plainCore writes warnings as lines for people: the message, what it is about, and the error.
type plainCore struct {
	log    *workLog
	fields []zapcore.Field
}

// toldAnyway are the warnings that work puts in words of its own.
var toldAnyway = []string{"session over", "handler ignores the end of its context", "attempt "}

// Enabled lets warnings and errors through.
func (c plainCore) Enabled(level zapcore.Level) bool { return level >= zap.WarnLevel }

// With returns a core that adds the fields to each entry.
func (c plainCore) With(fields []zapcore.Field) zapcore.Core {
	return plainCore{c.log, slices.Concat(c.fields, fields)}
}

// Check adds the core to what writes the entry.
func (c plainCore) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return checked.AddCore(e, c)
	}
	return checked
}

// Write writes the line. That etcd gives no answer is not told by each of those who miss it: see vigil.
func (c plainCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if slices.ContainsFunc(toldAnyway, func(told string) bool { return strings.HasPrefix(e.Message, told) }) {
		return nil
	}
	line := "warning: " + e.Message
	var err error
	for _, f := range slices.Concat(c.fields, fields) {
		if f.Type == zapcore.ErrorType {
			err, _ = f.Interface.(error)
			continue
		}
		values := zapcore.NewMapObjectEncoder()
		f.AddTo(values)
		line += fmt.Sprintf(" (%s %v)", f.Key, values.Fields[f.Key])
	}
	switch {
	case err == nil:
	case exitCode(err) == exitUnreachable, errors.Is(err, context.Canceled), status.Code(err) == codes.Canceled:
		return nil
	default:
		line += ": " + errorText(err)
	}
	c.log.line("%s", line)
	return nil
}

// Sync has nothing to do: each line is written at once.
func (c plainCore) Sync() error { return nil }
