package leasectl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/escape"
	"github.com/leasekit/leasekit/internal/leasectl/execjob"
)

// underOptions are what it takes to run a command under a claim.
type underOptions struct {
	claimNoun
	ttl         time.Duration
	grace       time.Duration
	credentials bool
	timeout     time.Duration
	forever     bool      // no timeout
	until       time.Time // when it ends, else
	permits     int       // of a semaphore
}

// newUnder completes a verb that runs a command under a claim.
func newUnder(a *app, o *underOptions, cmd *cobra.Command) *cobra.Command {
	cmd.Args = takes("NAME")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dash := cmd.ArgsLenAtDash()
		if dash < 0 || dash == len(args) {
			return usagef(cmd.CommandPath()+" "+args[0]+" -- CMD ARG...", "%sthe command after -- is missing", verbPrefix(cmd))
		}
		if err := o.inLine(cmd); err != nil {
			return err
		}
		if err := keyspace.ValidateName(o.noun, args[0]); err != nil {
			return err
		}
		return runUnder(cmd.Context(), a, args[0], args[dash:], o)
	}
	f := cmd.Flags()
	f.DurationVar(&o.ttl, "ttl", 10*time.Second, "others get it `TIME` after this process is gone")
	f.DurationVar(&o.grace, "grace", 10*time.Second, "`TIME` between SIGTERM and SIGKILL after a signal")
	addCredentialsFlag(f, &o.credentials)
	return cmd
}

// runUnder looks the command up first, so that a typing error claims nothing.
func runUnder(ctx context.Context, a *app, name string, argv []string, o *underOptions) error {
	argv, err := execjob.Look(argv)
	if err != nil {
		return err
	}
	err = a.withEtcd(ctx, func(c *connection) error {
		o.until = time.Now().Add(o.timeout)
		return standAgain(ctx, a, o, func() error { return underSession(ctx, a, c, name, argv, o) })
	})
	var ended *commandEnded
	var look *execjob.LookError
	var f *failure
	switch {
	case err == nil || errors.As(err, &ended) || errors.As(err, &look):
		return err
	case errors.As(err, &f) && (f.code == exitLost || f.code == exitNotInTime):
		return err
	}
	if _, ok := interruptCode(ctx, err); ok {
		return err
	}
	return &failure{code: exitOwn, err: err}
}

// errInLine marks the loss of a session that had nothing but a place in line.
var errInLine = errors.New("lost while waiting")

// standAgain keeps somebody who waits in line over an outage of etcd, at its end.
func standAgain(ctx context.Context, a *app, o *underOptions, stand func() error) error {
	err := stand()
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for waited := false; ; {
		switch {
		case errors.Is(err, errInLine):
			a.notef("%s; standing again", errorText(err))
			waited = true
		case !waited || exitCode(err) != exitUnreachable:
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if !o.forever && time.Now().After(o.until) {
			return &failure{code: exitNotInTime, err: err}
		}
		err = stand()
	}
}

func underSession(ctx context.Context, a *app, c *connection, name string, argv []string, o *underOptions) (err error) {
	opening, cancel := a.bounded(ctx)
	defer cancel()
	s, err := coord.OpenSession(opening, c.Client, coord.SessionConfig{Root: c.root, Identity: a.settings.identity, TTL: o.ttl})
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := a.bounded(context.WithoutCancel(ctx))
		defer cancel()
		_ = s.Close(closing) // what it could not give back ends with its lease
	}()
	h, err := acquire(ctx, a, s, name, o)
	if errors.Is(err, coord.ErrSessionLost) {
		return fmt.Errorf("%s: %w: %w", o.ref(name), errInLine, err)
	}
	if err != nil {
		return err
	}
	return underHold(ctx, a, c, s, h, name, argv, o)
}

// acquire says whom it waits for before it does.
func acquire(ctx context.Context, a *app, s *coord.Session, name string, o *underOptions) (*coord.Hold, error) {
	errNotInTime := fmt.Errorf("%s not acquired in time", o.ref(name))
	lock := o.claim(s, name, o.permits)
	if !o.forever {
		var cancel context.CancelFunc
		// Without waiting there is still an answer to wait for.
		ctx, cancel = context.WithTimeoutCause(ctx, max(time.Until(o.until), a.settings.dialTimeout), errNotInTime)
		defer cancel()
	}
	h, err := lock.TryAcquire(ctx)
	if errors.Is(err, coord.ErrHeld) && (o.forever || o.timeout > 0) {
		noteWaiting(ctx, a, lock, o.ref(name))
		if o.forever {
			return lock.Acquire(ctx)
		}
		waiting, cancel := context.WithDeadlineCause(ctx, o.until, errNotInTime)
		defer cancel()
		h, err = lock.Acquire(waiting)
	}
	if errors.Is(err, coord.ErrHeld) || errors.Is(err, errNotInTime) {
		return nil, &failure{code: exitNotInTime, err: err, try: "leasectl " + o.plural + " get " + escape.Shell(name)}
	}
	return h, err
}

// noteWaiting says whom it waits for, where that is one.
func noteWaiting(ctx context.Context, a *app, claim holdable, ref string) {
	lock, one := claim.(*coord.Lock)
	if !one {
		a.notef("waiting for %s: all its permits are held, or meant for those who wait", ref)
	} else if st, err := lock.State(ctx); err == nil && st.Owner != "" {
		a.notef("waiting for %s: it is %s's since %s, and %d wait", ref, st.Owner, age(time.Since(st.Since)), len(st.Waiters))
	}
}

// underHold runs the command, and gives the claim back.
func underHold(ctx context.Context, a *app, c *connection, s *coord.Session, h *coord.Hold, name string, argv []string, o *underOptions) error {
	holding, cancel := h.Context(ctx)
	defer cancel()
	cmd := execjob.Command{
		Argv: argv, Stdin: a.in, Stdout: a.out, Stderr: a.err, Grace: o.grace, Abort: a.aborted,
		Lost:        h.Done(),
		LostGrace:   max(500*time.Millisecond, s.TTL()/10) / 2, // dead before the lease can have ended
		Reliable:    s.Remaining,
		Credentials: o.credentials,
		Env: []string{
			"LEASECTL_TOKEN=" + h.Token().String(), "LEASECTL_CLAIM_KEY=" + h.Fence().Key, "LEASECTL_SESSION=" + s.ID(),
			"LEASECTL_ENDPOINTS=" + strings.Join(c.endpoints, ","), "LEASECTL_ROOT=" + c.root, "LEASECTL_CONTEXT=" + c.context,
			"ETCD_LOCK_KEY=" + h.Fence().Key, "ETCD_LOCK_REV=" + h.Token().String(),
		},
	}
	code, err := cmd.Run(holding)
	if err != nil {
		return err
	}
	lost := context.Cause(holding)
	if lost == nil || ctx.Err() != nil && !errors.Is(lost, coord.ErrSessionLost) && !errors.Is(lost, coord.ErrFenced) {
		lost = giveBack(ctx, a, h)
	}
	switch {
	case lost != nil:
		return &failure{code: exitLost, err: fmt.Errorf("%s lost: %w", o.ref(name), lost)}
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case code != 0:
		return &commandEnded{code}
	}
	return nil
}

// giveBack releases the claim. An error means that it was lost before: somebody else may have held it while the command
// still ran.
func giveBack(ctx context.Context, a *app, h *coord.Hold) error {
	ctx, cancel := a.bounded(context.WithoutCancel(ctx))
	defer cancel()
	err := h.Release(ctx)
	if err != nil && !errors.Is(err, coord.ErrFenced) {
		a.notef("warning: %s; it ends with its lease", errorText(err))
		return nil
	}
	return err
}
