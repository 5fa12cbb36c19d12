package election

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/inside"
	"github.com/leasekit/leasekit/internal/line"
	"github.com/leasekit/leasekit/internal/usercode"
)

// Elector is one candidate of an election. Create it with [New] and Run it once.
// Safe for concurrent use.
type Elector struct {
	client *clientv3.Client
	store  *etcdkv.Store
	cfg    Config
	log    *zap.Logger

	mu      sync.Mutex
	running bool
	session *coord.Session
	term    *Term
	// trouble is why there is no live session while Run runs; nil when there is one,
	// or none was tried yet.
	trouble error
}

// New returns an elector. It does not talk to etcd. The client stays the caller's
// and must outlive Run.
func New(client *clientv3.Client, cfg Config) (*Elector, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("new elector: %w", err)
	}
	store, err := etcdkv.NewStore(client, cfg.Root, cfg.Logger)
	if err != nil {
		return nil, fmt.Errorf("new elector: %w", err)
	}
	return &Elector{client: client, store: store, cfg: cfg, log: cfg.Logger.With(zap.String("election", cfg.Name))}, nil
}

// Run stands for election until ctx ends, and calls fn while it leads, once at a
// time. Fn must
// return when its ctx ends; its causes are [coord.ErrSessionLost], [coord.ErrFenced],
// [ErrResigned] and Run's own ctx. After a term that ended otherwise than by fn, Run
// stands again, behind those who wait, and the next term has a higher token. When fn
// returns by itself, Run gives the claim up and returns what fn returned. When ctx
// ends, Run waits for fn, hands the claim over, and returns nil, within 9 s when etcd gives
// no answer: the lease hands over then. Errors of etcd are
// logged and survived; only a configuration that can never work is returned,
// [coord.ErrClosed] when the client was closed, and [coord.ErrInvalid] when Run is
// running already or fn is nil. A panic of fn counts as a return with an error that
// holds its stack.
func (e *Elector) Run(ctx context.Context, fn func(ctx context.Context, t *Term) error) error {
	if fn == nil {
		return fmt.Errorf("election %s: %w", e.cfg.Name, &coord.InputError{Field: "function", Value: "nil", Reason: "pass what is to run while this elector leads"})
	}
	if err := e.begin(); err != nil {
		return err
	}
	defer e.finish()
	defer e.closeSession(ctx)
	for try := 0; ctx.Err() == nil; try++ {
		t, err := e.campaign(ctx)
		if err != nil {
			if errors.Is(err, coord.ErrInvalid) || errors.Is(err, coord.ErrClosed) && e.client.Ctx().Err() != nil && ctx.Err() == nil {
				return fmt.Errorf("election %s: %w", e.cfg.Name, err)
			}
			if ctx.Err() == nil {
				e.log.Warn("campaign", zap.Error(err))
			}
			e.dropLost(ctx)
			_ = etcdkv.Pause(ctx, try) // the loop tells when ctx ended
			continue
		}
		try = 0
		if done, err := e.lead(ctx, t, fn); done {
			return err
		}
	}
	return nil
}

func (e *Elector) begin() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running {
		return &coord.InputError{Field: "elector", Value: e.cfg.Name, Reason: "it is running already: make one for each candidate"}
	}
	e.running = true
	return nil
}

func (e *Elector) finish() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running, e.trouble = false, nil
}

// campaign waits until this elector leads.
func (e *Elector) campaign(ctx context.Context) (*Term, error) {
	s, err := e.liveSession(ctx)
	if err != nil {
		return nil, err
	}
	hold, err := inside.Of(s).Leadership(e.cfg.Name).(*coord.Lock).Acquire(ctx)
	if err != nil {
		return nil, err
	}
	t := &Term{hold: hold, session: s, over: make(chan struct{})}
	t.ctx, t.end = context.WithCancelCause(ctx)
	return t, nil
}

// lead runs fn for one term. Done tells that Run is over, with fn's error.
func (e *Elector) lead(ctx context.Context, t *Term, fn func(context.Context, *Term) error) (done bool, err error) {
	fnCtx, cancel := t.hold.Context(t.ctx)
	defer cancel()
	e.setTerm(t)
	defer close(t.over) // whoever waits for it finds no term any more
	defer e.setTerm(nil)
	defer t.end(nil)
	e.cfg.Hooks.Elected(t)
	returned := make(chan error, 1)
	go func() {
		err := errNoReturn
		defer func() { returned <- err }() // even when fn ends its goroutine
		err = usercode.Call(func() error { return fn(fnCtx, t) })
		if p, ok := err.(*usercode.PanicError); ok {
			err = fmt.Errorf("the leader's function: %w", p)
		}
	}()
	err, stuck := e.await(ctx, fnCtx, t, returned)
	cause := context.Cause(fnCtx)
	var p *usercode.PanicError
	if errors.As(err, &p) && cause != nil { // Run returns no error of a term that had ended
		e.log.Error("panic at the end of a term", zap.Error(p))
	}
	e.cfg.Hooks.Ended(t, cause)
	if stuck {
		_ = t.keep(fmt.Errorf("%w: the term was left to run out", coord.ErrSessionLost))
	} else {
		e.giveUp(ctx, t)
	}
	e.dropLost(ctx)
	if cause == nil {
		return true, err
	}
	return false, nil
}

// errNoReturn is what a term ended with whose function called runtime.Goexit.
var errNoReturn = errors.New("the leader's function ended its goroutine without returning")

// await waits for fn. When fn goes on after its context ended, the session is left
// to lapse after Grace, and fn is still waited for. Ctx is Run's.
func (e *Elector) await(ctx, fnCtx context.Context, t *Term, returned <-chan error) (err error, stuck bool) {
	select {
	case err := <-returned:
		return err, false
	case <-fnCtx.Done(): //mutant:leader-waits
	}
	grace := time.NewTimer(e.cfg.Grace)
	defer grace.Stop()
	select {
	case err := <-returned:
		return err, false
	case <-grace.C:
	}
	e.log.Error("the leader's function ignores the end of its context: its lease is left to run out",
		zap.String("token", t.Token().String()), zap.NamedError("cause", context.Cause(fnCtx)))
	e.letLapse(ctx, t) //mutant:stuck-lapses
	e.cfg.Hooks.Stuck(t)
	return <-returned, true //mutant:stuck-stands-not
}

// giveUp hands the claim over: to the successor that Transfer named, or to the first in
// line. What etcd denies is tried again for as long as a dead leader's claim would last,
// or for a moment once Run is to end; then the session is given up, and its end hands over.
func (e *Elector) giveUp(ctx context.Context, t *Term) {
	within, cancel := lasting(ctx, max(t.TTL(), 5*time.Second))
	defer cancel()
	for try := 0; ; try++ {
		err := t.handOver(within)
		select {
		case <-t.hold.Done():
			return // handed over, or somebody else's
		default:
		}
		if within.Err() != nil { //mutant:hand-over-again
			e.log.Warn("the leadership cannot be handed over: its session ends instead", zap.Error(err))
			e.letLapse(ctx, t)
			return
		}
		e.log.Info("hand over again", zap.Error(err))
		_ = etcdkv.Pause(within, try) // what it waits for tells
	}
}

// leaveTimeout is how long each step of leaving may take once Run's ctx has ended: the
// hand-over, the end of a session that could not hand over, and its close. Ending what is
// under way then takes up to a second more.
const leaveTimeout = 2 * time.Second

// lasting is a context for what must still be done when Run's ctx ends: it lasts for as
// long as is given, but no longer than leaveTimeout behind ctx.
func lasting(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), d)
	unlink := context.AfterFunc(ctx, func() {
		time.AfterFunc(leaveTimeout, cancel) //mutant:leader-stop-bounded
	})
	return within, func() { unlink(); cancel() }
}

// patience bounds what is tried before the session's lease is left to do it.
func (e *Elector) patience() time.Duration { return max(e.cfg.TTL, 5*time.Second) }

// letLapse ends the session of a term whose claim is left to the lease.
func (e *Elector) letLapse(ctx context.Context, t *Term) {
	ctx, cancel := lasting(ctx, e.patience())
	defer cancel()
	inside.Of(t.session).LetLapse(ctx, t.Fence().Nonce)
}

// liveSession returns the elector's session, opening one where there is none.
func (e *Elector) liveSession(ctx context.Context) (*coord.Session, error) {
	e.mu.Lock()
	s := e.session
	e.mu.Unlock()
	if s != nil && s.Err() == nil {
		return s, nil
	}
	s, err := e.openSession(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.trouble = err
	if err != nil {
		return nil, err
	}
	e.session = s
	return s, nil
}

func (e *Elector) openSession(ctx context.Context) (*coord.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, e.patience())
	defer cancel()
	if e.cfg.SessionKeeper != nil {
		return e.cfg.SessionKeeper.Session(ctx)
	}
	return coord.OpenSession(ctx, e.client, coord.SessionConfig{Root: e.cfg.Root, Identity: e.cfg.Identity, TTL: e.cfg.TTL, Logger: e.log})
}

// dropLost closes a session that is over, so that the next campaign opens another.
func (e *Elector) dropLost(ctx context.Context) {
	e.mu.Lock()
	s := e.session
	if s != nil {
		e.trouble = s.Err()
	}
	e.mu.Unlock()
	if s != nil && s.Err() != nil {
		e.closeSession(ctx)
	}
}

func (e *Elector) closeSession(ctx context.Context) {
	e.mu.Lock()
	s := e.session
	e.session = nil
	e.mu.Unlock()
	if s == nil || e.cfg.SessionKeeper != nil {
		return
	}
	ctx, cancel := lasting(ctx, e.patience())
	defer cancel()
	if err := s.Close(ctx); err != nil {
		e.log.Info("close session", zap.Error(err))
	}
}

func (e *Elector) setTerm(t *Term) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.term = t
}

// Term returns the current term, or nil while this elector does not lead.
func (e *Elector) Term() *Term {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.term
}

// Resign ends the current term: fn's context ends with cause [ErrResigned], and
// once fn has returned, the first in line leads. It blocks until the claim was
// given up or ctx ends, so fn itself must not wait for it: fn resigns by returning.
// [ErrNotLeader] when there is no term.
func (e *Elector) Resign(ctx context.Context) error { return e.resign(ctx, "") }

// Transfer is Resign in favour of the candidate with that session: once fn has
// returned, one Txn makes it leader, so that there is no moment without one.
// [ErrNotLeader] when there is no term; [coord.ErrRefused] when the session is no
// candidate, and then the term goes on. When it stops being one while fn returns, the
// error is the same, but the first in line leads.
func (e *Elector) Transfer(ctx context.Context, session string) error {
	if e.Term() == nil {
		return fmt.Errorf("election %s: %w", e.cfg.Name, ErrNotLeader)
	}
	candidates, err := e.Candidates(ctx)
	if err != nil {
		return err
	}
	if !slices.Contains(candidates, session) {
		return fmt.Errorf("election %s: %w: session %q is no candidate", e.cfg.Name, coord.ErrRefused, session)
	}
	return e.resign(ctx, session)
}

func (e *Elector) resign(ctx context.Context, to string) error {
	t := e.Term()
	if t == nil {
		return fmt.Errorf("election %s: %w", e.cfg.Name, ErrNotLeader)
	}
	t.successor(to)
	t.end(ErrResigned)
	select {
	case <-t.over:
		return t.handedOver()
	case <-ctx.Done():
		return fmt.Errorf("election %s: %w", e.cfg.Name, context.Cause(ctx))
	}
}

// Verify proves with one linearizable read that this elector leads in this moment.
// [ErrNotLeader], [coord.ErrFenced], or another error when etcd could not tell.
func (e *Elector) Verify(ctx context.Context) error {
	t := e.Term()
	if t == nil {
		return fmt.Errorf("election %s: %w", e.cfg.Name, ErrNotLeader)
	}
	return t.hold.Verify(ctx)
}

// Candidates lists the sessions that wait, first in line first.
func (e *Elector) Candidates(ctx context.Context) ([]string, error) {
	st, err := line.LeadershipState(ctx, e.store, e.cfg.Name)
	if err != nil {
		return nil, err
	}
	return st.Waiters, nil
}

// Healthz fails while Run runs without a live session, since this elector can then
// neither lead nor stand, and while the session has a claim that it cannot end. It never fails for merely not leading. Its shape is that of
// the health checks of controller managers.
func (e *Elector) Healthz(*http.Request) error {
	e.mu.Lock()
	s, err := e.session, e.trouble
	e.mu.Unlock()
	if s != nil {
		err = s.Healthz()
	}
	if err != nil {
		return fmt.Errorf("election %s: session: %w", e.cfg.Name, err)
	}
	return nil
}

// Runnable binds Run to a function, in the shape that controller managers take.
type Runnable struct {
	e  *Elector
	fn func(context.Context, *Term) error
}

// Runnable returns e.Run(ctx, fn) as something to start.
func (e *Elector) Runnable(fn func(ctx context.Context, t *Term) error) *Runnable {
	return &Runnable{e: e, fn: fn}
}

// Start blocks until ctx ends or fn returns by itself: see [Elector.Run].
func (r *Runnable) Start(ctx context.Context) error { return r.e.Run(ctx, r.fn) }

// NeedLeaderElection is false: the election is ours.
func (r *Runnable) NeedLeaderElection() bool { return false }
