package coord

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// SlogLogger returns a logger that hands everything to a [slog.Handler], for the Logger
// of a config where a program logs with log/slog: levels, fields, groups and the source
// line arrive as slog's own, a logger's name as "logger" and a stack as "stack". A nil
// handler logs nothing. The handler is called from many goroutines, as slog's rules have it.
func SlogLogger(h slog.Handler) *zap.Logger {
	if h == nil {
		return zap.NewNop()
	}
	return zap.New(slogCore{h}, zap.AddCaller())
}

// slogCore is the end of a zap logger that a slog handler is.
type slogCore struct{ handler slog.Handler }

var _ zapcore.Core = slogCore{}

// slogLevel is exact: both have four steps from Info to Warn, zap in units of one.
func slogLevel(l zapcore.Level) slog.Level { return 4 * slog.Level(l) }

func (c slogCore) Enabled(l zapcore.Level) bool {
	return c.handler.Enabled(context.Background(), slogLevel(l))
}

func (c slogCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

func (c slogCore) With(fields []zapcore.Field) zapcore.Core {
	for i, f := range fields {
		if f.Type == zapcore.NamespaceType {
			return slogCore{c.handler.WithAttrs(slogAttrs(fields[:i])).WithGroup(f.Key)}.With(fields[i+1:])
		}
	}
	return slogCore{c.handler.WithAttrs(slogAttrs(fields))}
}

func (c slogCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	r := slog.NewRecord(e.Time, slogLevel(e.Level), e.Message, e.Caller.PC)
	if e.LoggerName != "" {
		r.AddAttrs(slog.String("logger", e.LoggerName))
	}
	r.AddAttrs(slogAttrs(fields)...)
	if e.Stack != "" {
		r.AddAttrs(slog.String("stack", e.Stack))
	}
	return c.handler.Handle(context.Background(), r)
}

// Sync has nothing to do: a handler keeps nothing back.
func (c slogCore) Sync() error { return nil }

// slogAttrs are the fields in their order; what follows a namespace is its group.
func slogAttrs(fields []zapcore.Field) []slog.Attr {
	attrs := make([]slog.Attr, 0, len(fields))
	for i, f := range fields {
		switch f.Type {
		case zapcore.NamespaceType:
			return append(attrs, slog.GroupAttrs(f.Key, slogAttrs(fields[i+1:])...))
		case zapcore.ErrorType:
			attrs = append(attrs, slog.Any(f.Key, f.Interface)) // a handler may look into it
		default:
			one := zapcore.NewMapObjectEncoder()
			f.AddTo(one)
			attrs = append(attrs, slogMembers(one.Fields)...)
		}
	}
	return attrs
}

// slogMembers are what zap made of a field: one value, or of an object several.
func slogMembers(members map[string]any) (attrs []slog.Attr) {
	for _, key := range slices.Sorted(maps.Keys(members)) {
		if object, ok := members[key].(map[string]any); ok {
			attrs = append(attrs, slog.GroupAttrs(key, slogMembers(object)...))
			continue
		}
		attrs = append(attrs, slog.Any(key, members[key]))
	}
	return attrs
}
