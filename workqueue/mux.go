package workqueue

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Mux hands each job to the handler of its kind. A worker with a Mux claims only
// the kinds that the Mux knows. Register everything before the worker starts; Handle
// is then safe for concurrent use.
type Mux struct{ handlers map[string]Handler }

// NewMux returns a Mux without handlers.
func NewMux() *Mux { return &Mux{handlers: map[string]Handler{}} }

// Register makes h work the jobs of a kind; "" is the kind of jobs without one. It
// panics when the kind has a handler already, or h is nil, since that is a mistake
// of the program.
func (m *Mux) Register(kind string, h Handler) {
	if h == nil {
		panic(fmt.Sprintf("workqueue: kind %q has a nil handler", kind))
	}
	if m.handlers == nil {
		m.handlers = map[string]Handler{}
	}
	if _, ok := m.handlers[kind]; ok {
		panic(fmt.Sprintf("workqueue: kind %q has two handlers", kind))
	}
	m.handlers[kind] = h
}

// Handle calls the handler of the job's kind.
func (m *Mux) Handle(ctx context.Context, c *Claim) ([]byte, error) {
	h, ok := m.handlers[c.Job().Kind]
	if !ok {
		return nil, fmt.Errorf("no handler for kind %q", c.Job().Kind)
	}
	return h.Handle(ctx, c)
}

// Kinds lists the kinds that have handlers.
func (m *Mux) Kinds() []string { return slices.Sorted(maps.Keys(m.handlers)) }

// HandleJSON registers a function that takes its payload, and gives its result, as
// JSON. A payload that does not decode buries the job at once: no further attempt
// would read it better. It panics as [Mux.Register] does.
func HandleJSON[In, Out any](m *Mux, kind string, f func(ctx context.Context, c *Claim, in In) (Out, error)) {
	if f == nil {
		m.Register(kind, nil)
	}
	m.Register(kind, HandlerFunc(func(ctx context.Context, c *Claim) ([]byte, error) {
		var in In
		if p := c.Job().Payload; len(p) > 0 {
			if err := json.Unmarshal(p, &in); err != nil {
				return nil, Permanent(fmt.Errorf("decode payload: %w", err))
			}
		}
		out, err := f(ctx, c, in)
		if err != nil {
			return nil, err
		}
		result, err := encodeJSON(out)
		if err != nil {
			return nil, Permanent(fmt.Errorf("encode result: %w", err))
		}
		return result, nil
	}))
}
