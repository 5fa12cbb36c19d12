package workqueue

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/leasekit/leasekit/internal/job"
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

// strangerPause is for how long a job is put off that a Mux has no handler for, so
// that workers which have one find it first.
const strangerPause = time.Minute

// Handle calls the handler of the job's kind. A job of a kind that has none is put off
// for a minute, counted as nothing. A worker hands over such a job only when what wraps
// the Mux hides its kinds: see [NewWorker].
func (m *Mux) Handle(ctx context.Context, c *Claim) ([]byte, error) {
	h, ok := m.handlers[c.Job().Kind]
	if !ok {
		return nil, &outcomeError{outcome: job.VerbSnooze, delay: strangerPause, unbegun: true, err: fmt.Errorf(
			"no handler for kind %q: give what wraps the Mux a method Kinds, or Unwrap() Handler, and such jobs are left to others", c.Job().Kind)}
	}
	return h.Handle(ctx, c)
}

// Kinds lists the kinds that have handlers.
func (m *Mux) Kinds() []string { return slices.Sorted(maps.Keys(m.handlers)) }
