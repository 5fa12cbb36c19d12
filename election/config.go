package election

import (
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// Config configures [New]. Only Name must be set.
type Config struct {
	// Name is the election's name.
	Name string
	// Root is the key prefix; "" means /leasekit/.
	Root string
	// Identity is a label for people; "" means the host name. It need not be unique.
	Identity string
	// TTL is how long a dead leader's claim lasts, 1 s to 24 h; 0 means 10 s. See
	// [coord.SessionConfig].
	TTL time.Duration
	// SessionKeeper gives the session; nil means one of the elector's own, with TTL, so that
	// letting a stuck leader's lease run out costs nothing else. A keeper that is passed
	// in must be running, and be stopped after the elector. Where its session has to be
	// let run out, what else hangs on it is given up first, and TTL and Identity are the
	// session's.
	SessionKeeper *coord.SessionKeeper
	// Grace is how long fn may go on after its context ended before its lease is left
	// to run out, at most 100 years; 0 means TTL, 10 s at most. Once Run's ctx has ended
	// and fn has returned, Run ends within 9 s, so within 19 s by default: of the 30 s
	// that a pod has to stop, 5 s stay even where a queue is closed behind it.
	Grace time.Duration
	// Hooks see what happens.
	Hooks Hooks
	// Logger logs what no caller sees; nil logs nothing. [coord.SlogLogger] makes one of
	// a slog handler.
	Logger *zap.Logger
}

const (
	defaultTTL = 10 * time.Second
	maxTTL     = 24 * time.Hour // what a session may have
	maxGrace   = 100 * 365 * 24 * time.Hour
)

// Hooks let a program see its terms come and go. Each may be nil, and must not
// block. A panic of one is logged, and the term goes on.
type Hooks struct {
	// Elected: a term began; fn is called next.
	Elected func(t *Term)
	// Ended: fn has returned; cause is why its context ended, nil when it returned by
	// itself.
	Ended func(t *Term, cause error)
	// Stuck: fn did not return within Grace after its context ended. The lease is left
	// to run out.
	Stuck func(t *Term)
}

func (c Config) withDefaults() Config {
	if c.TTL == 0 {
		c.TTL = defaultTTL
	}
	if c.Grace == 0 {
		c.Grace = min(c.TTL, defaultTTL)
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
	c.Hooks = c.Hooks.guarded(c.Logger)
	return c
}

func (c Config) validate() error {
	if err := keyspace.ValidateName("election", c.Name); err != nil {
		return err
	}
	if err := keyspace.ValidateName("identity", c.Identity); err != nil {
		return err
	}
	if c.TTL < time.Second || c.TTL > maxTTL {
		return &coord.InputError{Field: "ttl", Value: c.TTL.String(), Reason: "it is between 1s and 24h; 0 means 10s"}
	}
	if c.Grace < 0 || c.Grace > maxGrace {
		return &coord.InputError{Field: "grace", Value: c.Grace.String(), Reason: "it is between 0, which means the ttl but at most 10s, and 100 years"}
	}
	return nil
}
