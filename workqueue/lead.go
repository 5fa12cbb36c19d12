package workqueue

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/election"
	"github.com/leasekit/leasekit/internal/inside"
)

// DispatcherConfig configures [NewDispatcher]. The zero value works.
type DispatcherConfig struct {
	// TTL is how long a dead dispatcher's leadership lasts, before a standby takes
	// over; 0 means 10 s.
	TTL time.Duration
	// Prefetch is how many jobs more than it has handlers a worker may hold, so that
	// its next job is there when one ends, at most 10,000; 0 means none. Jobs that a worker holds when
	// it dies count as lost even when it had not begun them.
	Prefetch int
	// Identity is a label for people; "" means the queue's.
	Identity string
}

// Dispatcher hands a queue's jobs out to its workers while the queue is in mode
// dispatch: see [Queue.SetMode]. Run one, or several as standbys of each other: the
// leader of election "dispatcher:<queue>" works. All its state is in etcd. Create it
// with [NewDispatcher] and Run it once.
type Dispatcher struct {
	q   *Queue
	cfg DispatcherConfig
	e   *election.Elector
}

// NewDispatcher returns a dispatcher of a queue. It does not talk to etcd.
func NewDispatcher(q *Queue, cfg DispatcherConfig) (*Dispatcher, error) {
	if q == nil {
		return nil, fmt.Errorf("new dispatcher: %w", &coord.InputError{Field: "queue", Value: "nil", Reason: "open one and pass it"})
	}
	if cfg.Prefetch < 0 || cfg.Prefetch > 10_000 {
		return nil, fmt.Errorf("new dispatcher: %w", &coord.InputError{Field: "prefetch", Value: fmt.Sprint(cfg.Prefetch), Reason: "it is between 0 and 10000"})
	}
	if cfg.Identity == "" {
		cfg.Identity = q.cfg.Identity
	}
	e, err := election.New(q.client, election.Config{
		Name: q.DispatcherElection(), Root: q.cfg.Root, Identity: cfg.Identity, TTL: cfg.TTL, Logger: q.core.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("new dispatcher: %w", err)
	}
	return &Dispatcher{q: q, cfg: cfg, e: e}, nil
}

// DispatcherElection is the name of the election whose leader dispatches the queue.
func (q *Queue) DispatcherElection() string { return q.core.Keys().DispatcherElection() }

// Run stands for dispatcher until ctx ends, and dispatches while it leads. It
// returns nil after a clean stop, which hands over to a standby at once. It survives
// lost sessions and an etcd that is away.
func (d *Dispatcher) Run(ctx context.Context) error {
	return d.e.Run(ctx, func(ctx context.Context, t *election.Term) error {
		return d.q.dispatch(ctx, t, d.cfg.Prefetch)
	})
}

// Start is Run, under the name that controller managers look for.
func (d *Dispatcher) Start(ctx context.Context) error { return d.Run(ctx) }

// NeedLeaderElection is false: the dispatcher has an election of its own.
func (d *Dispatcher) NeedLeaderElection() bool { return false }

// Elector is the dispatcher's candidate, to observe, to resign, or to hand over.
func (d *Dispatcher) Elector() *election.Elector { return d.e }

// Healthz fails while the dispatcher can neither lead nor stand by: see
// [election.Elector.Healthz].
func (d *Dispatcher) Healthz(r *http.Request) error { return d.e.Healthz(r) }

// dispatch is one term.
func (q *Queue) dispatch(ctx context.Context, t *election.Term, prefetch int) error {
	release, err := q.core.Mirrors.NeedJobs(ctx)
	if err != nil {
		return err
	}
	defer release()
	d := &dispatching{q: q, fence: t.Fence(), committer: inside.OfTerm(t), ttl: t.TTL(), prefetch: prefetch}
	d.run(ctx)
	return context.Cause(ctx)
}
