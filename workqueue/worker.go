package workqueue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/ready"
)

// WorkerConfig configures [NewWorker]. The zero value works.
type WorkerConfig struct {
	// Concurrency is how many handlers run at a time, at most 10,000; 0 means 16. While
	// the result of one that has returned is on its way to etcd the next may run: of
	// jobs that run and results on their way there are at most twice as many in all.
	Concurrency int
	// SessionKeeper gives the session; nil means one of the worker's own, with SessionTTL.
	// A keeper that is passed in must be running, and be stopped after the worker; it
	// serves one worker per queue.
	SessionKeeper *coord.SessionKeeper
	// SessionTTL is the TTL of the worker's own session, 1 s to 24 h; 0 means 10 s.
	SessionTTL time.Duration
	// Timeout bounds each attempt whose job has no timeout of its own; 0 means no
	// bound. More than 100 years, here and below, counts as 100 years.
	Timeout time.Duration
	// Grace is how long a handler may go on after its context ended before it is
	// abandoned; 0 means 5 s.
	Grace time.Duration
	// DrainTimeout is how long running handlers may go on when Run's ctx ends,
	// before their contexts end too; 0 means 10 s, negative means no time at all. Run
	// ends within DrainTimeout + Grace + 3 s, and 3 s more for a session of its own;
	// [Queue.Close] takes 3 s behind it at most. By default all that fits into 25 s, so
	// into the 30 s that a pod has to stop.
	DrainTimeout time.Duration
	// Limit stops the worker after it has worked that many jobs; 0 means no limit.
	Limit int
	// StandForDispatcher makes the worker a candidate for the queue's dispatcher too,
	// so that mode dispatch needs no service of its own: see [Dispatcher].
	StandForDispatcher bool
	// Hooks see what happens.
	Hooks Hooks
}

func (c WorkerConfig) withDefaults() WorkerConfig {
	if c.Concurrency == 0 {
		c.Concurrency = 16
	}
	if c.Grace == 0 {
		c.Grace = 5 * time.Second
	}
	switch {
	case c.DrainTimeout == 0:
		c.DrainTimeout = 10 * time.Second
	case c.DrainTimeout < 0:
		c.DrainTimeout = 0
	}
	// Whatever means for ever works.
	c.Timeout, c.Grace, c.DrainTimeout = min(c.Timeout, job.MaxTimeout), min(c.Grace, job.MaxTimeout), min(c.DrainTimeout, job.MaxTimeout)
	return c
}

func (c WorkerConfig) validate() error {
	if c.Concurrency < 0 || c.Concurrency > 10_000 {
		return &coord.InputError{Field: "concurrency", Value: fmt.Sprint(c.Concurrency), Reason: "it is between 1 and 10000; 0 means 16"}
	}
	if c.Limit < 0 {
		return &coord.InputError{Field: "limit", Value: fmt.Sprint(c.Limit), Reason: "it must not be negative; 0 means no limit"}
	}
	return job.CheckSpans(
		job.Span{Field: "session ttl", D: c.SessionTTL, Least: time.Second, Most: job.MaxPeriod, Zero: "10s"},
		job.Span{Field: "timeout", D: c.Timeout, Least: 0, Most: job.MaxTimeout, Zero: "no bound"},
		job.Span{Field: "grace", D: c.Grace, Least: 0, Most: job.MaxTimeout, Zero: "5s"},
	)
}

// Worker claims jobs of a queue and works them. Create it with [NewWorker] and Run
// it once.
type Worker struct {
	q       *Queue
	handler Handler
	cfg     WorkerConfig
	kinds   []string
	hooks   Hooks
	log     *zap.Logger

	slots slots
	wg    sync.WaitGroup // one per job under way, unless it was abandoned
	stops
	service
}

// stops are the ends of a run, one behind the other.
type stops struct {
	ran      atomic.Bool
	soft     context.Context // Run's: when it has ended, nothing more begins
	hard     context.Context // ends when draining is over
	hardStop context.CancelCauseFunc
	last     context.Context // ends Grace and leaveTimeout after hard: no closing write is waited for
}

// NewWorker returns a worker of a queue. A handler with a method Kinds() []string, such
// as a [Mux], is given only jobs of those kinds. What wraps one has that method too, or
// Unwrap() Handler; otherwise, as in HandlerFunc(mux.Handle), it is given every job, and
// the Mux puts off those that it has no handler for.
func NewWorker(q *Queue, h Handler, cfg WorkerConfig) (*Worker, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("new worker: %w", err)
	}
	if q == nil || h == nil {
		return nil, fmt.Errorf("new worker: %w", &coord.InputError{Field: "queue and handler", Value: "nil", Reason: "both are needed"})
	}
	w := &Worker{
		q: q, handler: h, cfg: cfg, hooks: cfg.Hooks.guarded(q.core.Log), log: q.core.Log,
		slots: slots{concurrency: cfg.Concurrency, limit: cfg.Limit, freed: make(chan struct{}, 1)},
	}
	kinds, err := kindsOf(h)
	if err != nil {
		return nil, fmt.Errorf("new worker: %w", &coord.InputError{Field: "handler", Value: fmt.Sprintf("%T", h), Reason: err.Error()})
	}
	w.kinds = kinds
	return w, nil
}

// Run works jobs until ctx ends, then drains: no job is begun any more, running
// handlers get DrainTimeout to finish, then their contexts end and they get Grace,
// then their claims are given up. It waits 3 s more for what etcd has to answer: what it
// does not goes on behind, until the session and the queue are closed, and what has no
// answer then ends with the lease. It returns nil after a clean stop, and an error when a handler
// still runs in spite of all that, or when no session can ever be had. It survives
// lost sessions with new ones. Run it once: a second call returns a [coord.InputError].
func (w *Worker) Run(ctx context.Context) error {
	if w.ran.Swap(true) { //mutant:run-once
		return fmt.Errorf("run worker: %w", &coord.InputError{Field: "worker", Value: "of queue " + w.q.core.Name(), Reason: "it was run before: make one for each run"})
	}
	w.soft = ctx
	w.hard, w.hardStop = context.WithCancelCause(context.Background())
	defer w.hardStop(nil)
	defer w.endAtLast()()
	if err := w.q.core.Mirrors.SyncConfig(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	keeper, stop := w.sessionKeeper()
	defer stop()
	defer w.standForDispatcher(ctx)()
	err := w.serveAll(ctx, keeper)
	if left := w.drain(); left > 0 {
		err = errors.Join(err, fmt.Errorf("worker of %s: handlers that ignore the end of their context still run: %d", w.q.core.Name(), left))
	}
	return err
}

// endAtLast makes the context that ends when nothing is waited for any more, and returns
// how to end it: Grace after draining is over every handler has returned or is given up,
// and what the last of them left has leaveTimeout to reach etcd.
func (w *Worker) endAtLast() (stop func()) {
	last, end := context.WithCancelCause(w.q.core.Life)
	w.last = last
	unlink := context.AfterFunc(w.hard, func() {
		rest(last, w.cfg.Grace+leaveTimeout)
		end(ErrDraining) //mutant:stop-is-bounded
	})
	return func() {
		unlink()
		end(nil)
	}
}

// Start is Run, under the name that controller managers look for.
func (w *Worker) Start(ctx context.Context) error { return w.Run(ctx) }

// NeedLeaderElection tells controller managers that workers run on every replica.
func (w *Worker) NeedLeaderElection() bool { return false }

// sessionKeeper returns the keeper to use, and how to stop it when it is our own.
func (w *Worker) sessionKeeper() (*coord.SessionKeeper, func()) {
	if w.cfg.SessionKeeper != nil {
		return w.cfg.SessionKeeper, func() {}
	}
	m := coord.NewSessionKeeper(w.q.client, coord.SessionConfig{Root: w.q.cfg.Root, Identity: w.q.cfg.Identity, TTL: w.cfg.SessionTTL, Logger: w.log})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := m.Run(ctx); err != nil {
			w.log.Error("session", zap.Error(err))
		}
	})
	return m, func() { cancel(); wg.Wait() }
}

// serveAll works under one session after another.
func (w *Worker) serveAll(ctx context.Context, m *coord.SessionKeeper) error {
	w.serves(nil, true)
	defer w.serves(nil, false)
	for ctx.Err() == nil && !(w.slots.limited() && /*mutant:limit-worked*/ w.slots.idle()) { // what is under way may come to nothing yet
		s, err := m.Session(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("worker of %s: %w", w.q.core.Name(), err)
		}
		w.serves(s, true)
		if err := w.serveSession(ctx, s); err != nil && ctx.Err() == nil {
			return fmt.Errorf("worker of %s: %w", w.q.core.Name(), err)
		}
	}
	return nil
}

// serveSession works under one session, in one mode after another.
func (w *Worker) serveSession(ctx context.Context, s *coord.Session) error {
	turn := w.q.core.Index.Turn() // nothing is assigned to who is not registered
	r, err := w.register(ctx, s)
	// Behind the last job begun, and beside the draining of what runs.
	defer func() { w.wg.Go(func() { w.unregister(r) }) }()
	switch {
	case errors.Is(err, coord.ErrInvalid):
		return err
	case r == nil:
		return nil // the session has just ended
	case err != nil && ctx.Err() == nil:
		w.log.Warn("register worker", zap.Error(err))
	}
	for ctx.Err() == nil && s.Err() == nil && !(w.slots.limited() && w.slots.idle()) {
		if now := w.q.core.Index.Turn(); w.q.core.Index.Mode() == ModeDispatch || now != turn {
			turn = now
			w.serveInbox(ctx, s, r)
			continue
		}
		if err := w.serve(ctx, s, r, turn); err != nil {
			return err
		}
	}
	return nil
}

// standForDispatcher runs a dispatcher beside the worker where that is asked for,
// and returns how to stop it.
func (w *Worker) standForDispatcher(ctx context.Context) (stop func()) {
	if !w.cfg.StandForDispatcher {
		return func() {}
	}
	d, err := NewDispatcher(w.q, DispatcherConfig{TTL: w.cfg.SessionTTL})
	if err != nil {
		w.log.Error("stand for dispatcher", zap.Error(err))
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := d.Run(ctx); err != nil {
			w.log.Error("dispatcher", zap.Error(err))
		}
	})
	return func() { cancel(); wg.Wait() }
}

// serve claims and works jobs until the session or ctx is over, or something may have been
// assigned since turn.
func (w *Worker) serve(ctx context.Context, s *coord.Session, r *registration, turn int) error {
	release, err := w.q.core.Mirrors.NeedJobs(ctx)
	if err != nil {
		return err
	}
	defer release()
	changed, stop := w.q.core.Index.Listen()
	defer stop()
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	for {
		wake := ready.Soonest(w.keepRegistered(r, r.isTold(-1, w.q.core.Index.Listing(s.ID()))), w.fill(s))
		if w.slots.limited() && w.slots.idle() || w.q.core.Index.Turn() != turn {
			return nil
		}
		alarm.Stop()
		if !wake.IsZero() {
			alarm.Reset(max(time.Until(wake), time.Millisecond))
		}
		select {
		case <-changed:
		case <-w.slots.freed:
		case <-alarm.C:
		case <-s.Done():
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// fill starts as many jobs as there are free slots, and returns when to look
// again.
func (w *Worker) fill(s *coord.Session) time.Time {
	n, resume := w.slots.room()
	if n <= 0 || s.Remaining() <= 0 {
		return time.Time{}
	}
	if time.Now().Before(resume) {
		return resume
	}
	ask := ready.Claimant{SID: s.ID(), TTL: s.TTL()}
	if w.kinds != nil {
		ask.Knows = job.WorkerRecord{Kinds: w.kinds}.Knows
	}
	picked, wake := w.q.core.Index.Pick(n, ask)
	for _, c := range picked {
		w.slots.occupy()
		// What happens to a claimed job shows in the mirror, whatever the mode is by
		// then.
		release := w.q.core.Mirrors.HoldJobs()
		w.wg.Go(func() {
			defer release()
			w.work(s, c)
		})
	}
	return wake
}

// drain waits for the running handlers: DrainTimeout with their contexts alive,
// then until each has returned or was abandoned. It returns how many still run.
func (w *Worker) drain() int {
	done := make(chan struct{})
	go func() {
		w.wg.Wait()
		close(done)
	}()
	soft := time.NewTimer(w.cfg.DrainTimeout)
	defer soft.Stop()
	select {
	case <-done:
	case <-soft.C:
		w.hardStop(ErrDraining)
		<-done // bounded: work abandons what does not stop
	}
	return w.slots.left()
}
