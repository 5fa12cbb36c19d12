package work

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

	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

// zap is where the libraries tell what no caller sees, in the words of this log. The same trouble comes many times a
// second: each kind is told once in a while.
func (l *workLog) zap() *zap.Logger {
	return zap.New(zapcore.NewSamplerWithOptions(plainCore{log: l}, 10*time.Second, 1, 0))
}

// plainCore writes warnings as lines for people: what it is about, the message, and the error.
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
	line, err := sentence(e.Message, slices.Concat(c.fields, fields))
	line = "warning: " + line
	switch {
	case err == nil:
	case exit.Code(err) == exit.Unreachable, errors.Is(err, context.Canceled), status.Code(err) == codes.Canceled:
		return nil
	default:
		line += ": " + exit.Text(err)
	}
	c.log.line("%s", line)
	return nil
}

// sentence puts what it is about before the message, and the rest behind it: who reads it is a person.
func sentence(message string, fields []zapcore.Field) (line string, err error) {
	var queue, job string
	var more []string
	for _, f := range fields {
		values := zapcore.NewMapObjectEncoder()
		f.AddTo(values)
		switch value := values.Fields[f.Key]; {
		case f.Type == zapcore.ErrorType:
			err, _ = f.Interface.(error)
		case f.Key == "queue":
			queue = fmt.Sprint(value)
		case f.Key == "job":
			job = fmt.Sprint(value)
		case value == true:
			more = append(more, f.Key)
		case value != false:
			more = append(more, fmt.Sprintf("%s %v", f.Key, value))
		}
	}
	switch {
	case queue != "" && job != "":
		line = strings.TrimPrefix(cli.JobRef{Queue: queue, ID: job}.Name(), "job/") + ": "
	case queue != "":
		line = "queue " + queue + ": "
	case job != "":
		line = "job " + job + ": "
	}
	line += message
	if len(more) > 0 {
		line += " (" + strings.Join(more, ", ") + ")"
	}
	return line, err
}

// Sync has nothing to do: each line is written at once.
func (c plainCore) Sync() error { return nil }
