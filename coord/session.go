package coord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/internal/claims"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/lane"
)

// defaultTTL is the session TTL unless another is asked for.
const defaultTTL = 10 * time.Second

// SessionConfig configures [OpenSession] and [NewSessionKeeper]. The zero value works.
type SessionConfig struct {
	// Root is the key prefix; "" means /leasekit/.
	Root string
	// TTL is how long the session outlives its process: a dead owner's claims are
	// taken over after it. Whole seconds, 1 s to 24 h; etcd raises it to its minimum
	// (2 s by default), and the granted TTL is the one that counts. 0 means 10 s.
	TTL time.Duration
	// Identity is a label for people, such as a host or pod name. It need not be
	// unique. "" means the host name.
	Identity string
	// Resume is the ID of a session that another process left with [Session.Leave]: it
	// is gone on with, and TTL and Identity are its own. "" opens a new one.
	Resume string
	// Logger logs what no caller sees, such as a lost session; nil logs nothing.
	// [SlogLogger] makes one of a slog handler.
	Logger *zap.Logger

	// Clock reads, at one moment, the time since some fixed one on a clock that never
	// goes back, and the wall clock. It is for tests of what clocks that jump or stop
	// do to the session; nil means the process's own clocks.
	Clock func() (mono time.Duration, wall time.Time)

	clock clock // tests only
}

func (c SessionConfig) withDefaults() SessionConfig {
	if c.TTL == 0 {
		c.TTL = defaultTTL
	}
	if c.Identity == "" {
		c.Identity, _ = os.Hostname()
	}
	if c.Identity == "" {
		c.Identity = "unnamed"
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	switch read := c.Clock; {
	case c.clock != nil:
	case read != nil:
		c.clock = func() instant {
			mono, wall := read()
			return instant{mono: mono, wall: wall.Round(0)}
		}
	default:
		c.clock = systemClock()
	}
	return c
}

func (c SessionConfig) validate() error {
	if c.TTL < time.Second || c.TTL > 24*time.Hour {
		return &fault.InputError{Field: "ttl", Value: c.TTL.String(), Reason: "a session TTL is between 1s and 24h"}
	}
	return keyspace.ValidateName("identity", c.Identity)
}

// sessionRecord is the value of a session key, for people and for leasectl.
type sessionRecord struct {
	Nonce    string    `json:"w"`
	ID       string    `json:"id"`
	Identity string    `json:"identity"`
	Host     string    `json:"host,omitempty"`
	PID      int       `json:"pid,omitempty"`
	TTL      int64     `json:"ttl_seconds"`
	Opened   time.Time `json:"opened_at"`
}

// Session is one process's liveness: one etcd lease, renewed on a stream of its
// own, and the key sessions/<id> on it. It ends once, by Close or by loss, and
// never comes back. Safe for concurrent use.
type Session struct {
	store     *etcdkv.Store
	committer *lane.Committer
	book      *claims.Book
	log       *zap.Logger
	clock     clock

	sessionKey
	renewal
	ending
}

// sessionKey is what a session is in etcd.
type sessionKey struct {
	id        string
	key       string
	lease     clientv3.LeaseID
	createRev int64
}

// renewal is what keeps a session up.
type renewal struct {
	renewer etcdkv.Renewer
	rewound <-chan struct{} // etcd's history went back since before the session
	recheck chan struct{}   // the connection had trouble: see whether the key is there

	mu    sync.Mutex // guards the trust, and the session's end
	trust trust
}

// ending is how a session ends.
type ending struct {
	life   context.Context // ends with the session; its cause is why
	kill   context.CancelCauseFunc
	wg     sync.WaitGroup
	aside  background    // clean-up behind calls that returned
	closed chan struct{} // non-nil once Close began; closed when it is over
}

// OpenSession grants a lease, creates the session's key, and renews once, so that
// the session that it returns is trusted. It blocks until then or until ctx ends;
// a session that could not be opened leaves at most an empty lease that ends by
// itself. The client stays the caller's and must outlive the session.
func OpenSession(ctx context.Context, client *clientv3.Client, cfg SessionConfig) (*Session, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	store, err := etcdkv.NewStore(client, cfg.Root, cfg.Logger)
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	if cfg.Resume != "" {
		return resumeSession(ctx, store, cfg)
	}
	return openSession(ctx, store, cfg)
}

func openSession(ctx context.Context, store *etcdkv.Store, cfg SessionConfig) (*Session, error) {
	rewound := store.Rewound()
	lease, ttl, err := store.Grant(ctx, cfg.TTL)
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	id := keyspace.EscapeIdentity(cfg.Identity) + "." + keyspace.Hex16(uint64(lease))
	s := newSession(store, cfg, id, lease, ttl, rewound)
	if err := s.open(ctx, cfg, ttl); err != nil {
		s.discard(ctx)
		return nil, fmt.Errorf("open session: %w", err)
	}
	s.start()
	return s, nil
}

func newSession(store *etcdkv.Store, cfg SessionConfig, id string, lease clientv3.LeaseID, ttl time.Duration, rewound <-chan struct{}) *Session {
	s := &Session{
		store: store, committer: lane.NewCommitter(store, cfg.Identity),
		log: cfg.Logger.With(zap.String("session", id)), clock: cfg.clock,
		sessionKey: sessionKey{id: id, key: store.Keys().Session(id), lease: lease},
		renewal:    renewal{renewer: store.Renewer(lease), trust: trust{ttl: ttl}, rewound: rewound, recheck: make(chan struct{}, 1)},
	}
	s.life, s.kill = context.WithCancelCause(context.Background())
	s.book = claims.NewBook(s.aside.start, func(nonce string, err error) {
		s.log.Warn("a claim without a caller cannot be ended yet", zap.String("nonce", nonce), zap.Error(err))
	})
	return s
}

// start keeps the session up to its end.
func (s *Session) start() {
	s.wg.Go(s.renewLoop)
	s.wg.Go(s.watchOwnKey)
	s.wg.Go(s.watchClock)
}

// open creates the key and starts the trust window with a first renewal.
func (s *Session) open(ctx context.Context, cfg SessionConfig, ttl time.Duration) error {
	host, _ := os.Hostname()
	nonce := keyspace.NewNonce()
	value, err := json.Marshal(sessionRecord{
		Nonce: nonce, ID: s.id, Identity: cfg.Identity, Host: host, PID: os.Getpid(),
		TTL: int64(ttl / time.Second), Opened: s.clock().wall.UTC(),
	})
	if err != nil {
		return err
	}
	if s.createRev, err = createSessionKey(ctx, s.store, s.key, string(value), nonce, s.lease); err != nil {
		return err
	}
	return s.firstRenewal(ctx)
}

func (s *Session) firstRenewal(ctx context.Context) error {
	for try := 0; ; try++ {
		err := s.renewOnce(ctx)
		if err == nil || errors.Is(err, fault.ErrSessionLost) {
			return err
		}
		if perr := etcdkv.Pause(ctx, try); perr != nil {
			return fmt.Errorf("first renewal: %w: %w", perr, err)
		}
	}
}

// discard cleans up behind a session that could not be opened. What its short
// time does not suffice for ends with the lease.
func (s *Session) discard(ctx context.Context) {
	s.kill(fmt.Errorf("session %w", fault.ErrClosed))
	s.renewer.Close()
	ctx, cancel := etcdkv.BoundedCleanup(ctx)
	defer cancel()
	ctx, cancelSoon := context.WithTimeout(ctx, time.Second)
	defer cancelSoon()
	if err := s.store.Revoke(ctx, s.lease); err != nil {
		s.log.Debug("revoke after a failed open", zap.Error(err))
	}
	_ = s.committer.Close(ctx) // it was never used
}

// ID is <escaped identity>.<16 hex digits>, unique per incarnation.
func (s *Session) ID() string { return s.id }

// Lease is the session's lease: the digits of the ID. Attach only keys that must
// vanish with the session, never a claim.
func (s *Session) Lease() clientv3.LeaseID { return s.lease }

// TTL is the granted TTL.
func (s *Session) TTL() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trust.ttl
}

// Done is closed when the session is over: lost, or Close began. It closes
// before the server can have given the lease up, as long as clocks behave.
func (s *Session) Done() <-chan struct{} { return s.life.Done() }

// Err is nil while the session lives, then why it ended: it matches
// [ErrSessionLost], or [ErrClosed].
func (s *Session) Err() error {
	s.Remaining()
	return context.Cause(s.life)
}

// Remaining is what is left of the trust window, in real time; zero when the
// session is over. It reads the clocks, so a process that was paused past its
// lease sees zero at its next look, whatever its timers say.
func (s *Session) Remaining() time.Duration {
	s.mu.Lock()
	left := s.trust.remaining(s.clock())
	s.mu.Unlock()
	if s.life.Err() != nil {
		return 0
	}
	if left <= 0 {
		s.end(fmt.Errorf("%w: no renewal was answered within the trust window", fault.ErrSessionLost))
		return 0
	}
	return left
}

// Context returns a context that ends with parent, with cancel, or with the
// session, in which case its cause is [Session.Err].
func (s *Session) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	// AfterFunc is a goroutine away, and a process that was paused has a stale
	// timer: neither may let work start on a session that is over.
	if err := s.Err(); err != nil {
		cancel(err)
	}
	stop := context.AfterFunc(s.life, func() { cancel(context.Cause(s.life)) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

// Guard returns the compare that holds while the session's key exists. Add it to
// a Txn that must not happen for a session that the server has given up.
func (s *Session) Guard() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(s.key), "=", s.createRev)
}

// end ends the session; only the first cause counts.
func (s *Session) end(cause error) {
	over := s.life.Err() != nil
	s.kill(cause)
	if !over && !errors.Is(cause, fault.ErrClosed) {
		s.log.Warn("session over", zap.Error(cause))
	}
}

// Healthz fails when the session is over, or has a claim that nothing here uses and
// that could not be given up yet.
func (s *Session) Healthz() error {
	if err := s.Err(); err != nil {
		return err
	}
	return s.book.Trouble()
}

// Close ends the session: Done closes, no new claim is taken, claims that are
// still registered are released, what was handed to the lanes is settled, and
// the lease is revoked. It is bounded by ctx; what did not fit ends with the
// lease. It waits for a Close under way and returns nil the second time. When it
// returns, no goroutine of the session is left.
func (s *Session) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.closed != nil {
		closed := s.closed
		s.mu.Unlock()
		select {
		case <-closed:
			return nil
		case <-ctx.Done():
			return fault.CauseOf(ctx)
		}
	}
	s.closed = make(chan struct{})
	s.mu.Unlock()
	defer close(s.closed)
	s.end(fmt.Errorf("session %w", fault.ErrClosed)) // which ends its goroutines too
	ctx, stop := s.store.WhileOpen(ctx)
	defer stop()
	err := s.book.Close(ctx, "")
	s.aside.close(ctx)
	err = errors.Join(err, s.committer.Drain(ctx))
	s.renewer.Close()
	s.wg.Wait()
	var revoked error
	var revoking sync.WaitGroup
	// At once, since either may use up all of ctx.
	revoking.Go(func() { revoked = s.revoke(ctx) })
	lanes := s.committer.Close(ctx)
	revoking.Wait()
	if err = errors.Join(err, revoked, lanes); err != nil {
		return fmt.Errorf("close session %s: %w", s.id, err)
	}
	return nil
}

// revoke ends the lease within ctx, but tries once even when ctx has ended.
func (s *Session) revoke(ctx context.Context) error {
	ctx, cancel := etcdkv.BoundedCleanup(ctx)
	defer cancel()
	return s.store.Revoke(ctx, s.lease)
}
