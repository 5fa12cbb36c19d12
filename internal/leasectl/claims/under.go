package claims

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/execjob"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
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
func newUnder(a *cli.App, o *underOptions, cmd *cobra.Command) *cobra.Command {
	cmd.Args = cli.Takes("NAME")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dash := cmd.ArgsLenAtDash()
		if dash < 0 || dash == len(args) {
			return exit.Usagef(cmd.CommandPath()+" "+args[0]+" -- CMD ARG...", "%sthe command after -- is missing", cli.VerbPrefix(cmd))
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
	cli.AddCredentialsFlag(f, &o.credentials)
	return cmd
}

// runUnder looks the command up first, so that a typing error claims nothing.
func runUnder(ctx context.Context, a *cli.App, name string, argv []string, o *underOptions) error {
	argv, err := execjob.Look(argv)
	if err != nil {
		return err
	}
	err = a.WithEtcd(ctx, func(c *connect.Conn) error {
		o.until = time.Now().Add(o.timeout)
		return standAgain(ctx, a, o, func() error { return underSession(ctx, a, c, name, argv, o) })
	})
	var ended *exit.Ended
	var look *execjob.LookError
	var f *exit.Error
	switch {
	case err == nil || errors.As(err, &ended) || errors.As(err, &look):
		return err
	case errors.As(err, &f) && (f.Code == exit.Lost || f.Code == exit.NotInTime):
		return err
	}
	if _, ok := exit.SignalCode(ctx, err); ok {
		return err
	}
	return &exit.Error{Code: exit.Own, Err: err}
}

// errInLine marks the loss of a session that had nothing but a place in line.
var errInLine = errors.New("lost while waiting")

// standAgain keeps somebody who waits in line over an outage of etcd, at its end.
func standAgain(ctx context.Context, a *cli.App, o *underOptions, stand func() error) error {
	err := stand()
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for waited := false; ; {
		switch {
		case errors.Is(err, errInLine):
			a.Notef("%s; standing again", exit.Text(err))
			waited = true
		case !waited || exit.Code(err) != exit.Unreachable:
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if !o.forever && time.Now().After(o.until) {
			return &exit.Error{Code: exit.NotInTime, Err: err}
		}
		err = stand()
	}
}

func underSession(ctx context.Context, a *cli.App, c *connect.Conn, name string, argv []string, o *underOptions) (err error) {
	opening, cancel := a.Bounded(ctx)
	defer cancel()
	s, err := coord.OpenSession(opening, c.Client, coord.SessionConfig{Root: c.Root, Identity: a.Settings.Identity, TTL: o.ttl})
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := a.Bounded(context.WithoutCancel(ctx))
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
func acquire(ctx context.Context, a *cli.App, s *coord.Session, name string, o *underOptions) (*coord.Hold, error) {
	errNotInTime := fmt.Errorf("%s not acquired in time", o.ref(name))
	lock := o.claim(s, name, o.permits)
	if !o.forever {
		var cancel context.CancelFunc
		// Without waiting there is still an answer to wait for.
		ctx, cancel = context.WithTimeoutCause(ctx, max(time.Until(o.until), a.Settings.DialTimeout), errNotInTime)
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
		return nil, &exit.Error{Code: exit.NotInTime, Err: err, Try: "leasectl " + o.plural + " get " + escape.Shell(name)}
	}
	return h, err
}

// noteWaiting says whom it waits for, where that is one.
func noteWaiting(ctx context.Context, a *cli.App, claim holdable, ref string) {
	lock, one := claim.(*coord.Lock)
	if !one {
		a.Notef("waiting for %s: all its permits are held, or meant for those who wait", ref)
	} else if st, err := lock.State(ctx); err == nil && st.Owner != "" {
		a.Notef("waiting for %s: it is %s's since %s, and %d wait", ref, st.Owner, output.Age(time.Since(st.Since)), len(st.Waiters))
	}
}

// underHold runs the command, and gives the claim back.
func underHold(ctx context.Context, a *cli.App, c *connect.Conn, s *coord.Session, h *coord.Hold, name string, argv []string, o *underOptions) error {
	holding, cancel := h.Context(ctx)
	defer cancel()
	cmd := execjob.Command{
		Argv: argv, Stdin: a.In, Stdout: a.Out, Stderr: a.Err, Grace: o.grace, Abort: a.Aborted,
		Lost:        h.Done(),
		LostGrace:   max(500*time.Millisecond, s.TTL()/10) / 2, // dead before the lease can have ended
		Reliable:    s.Remaining,
		Credentials: o.credentials,
		Env: []string{
			"LEASECTL_TOKEN=" + h.Token().String(), "LEASECTL_CLAIM_KEY=" + h.Fence().Key, "LEASECTL_SESSION=" + s.ID(),
			"LEASECTL_ENDPOINTS=" + strings.Join(c.Endpoints, ","), "LEASECTL_ROOT=" + c.Root, "LEASECTL_CONTEXT=" + c.Context,
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
		return &exit.Error{Code: exit.Lost, Err: fmt.Errorf("%s lost: %w", o.ref(name), lost)}
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case code != 0:
		return &exit.Ended{Code: code}
	}
	return nil
}

// giveBack releases the claim. An error means that it was lost before: somebody else may have held it while the command
// still ran.
func giveBack(ctx context.Context, a *cli.App, h *coord.Hold) error {
	ctx, cancel := a.Bounded(context.WithoutCancel(ctx))
	defer cancel()
	err := h.Release(ctx)
	if err != nil && !errors.Is(err, coord.ErrFenced) {
		a.Notef("warning: %s; it ends with its lease", exit.Text(err))
		return nil
	}
	return err
}

// NewLock is leasectl lock.
func NewLock(a *cli.App) *cobra.Command {
	o := underOptions{claimNoun: lockNoun}
	cmd := newUnder(a, &o, &cobra.Command{
		Use:   "lock NAME [flags] -- CMD [ARG...]",
		Short: "Run a command while holding a lock",
		Long: `Wait for a lock, in line, and run a command while holding it. The command has the
streams of leasectl, and in its environment LEASECTL_TOKEN, LEASECTL_CLAIM_KEY,
LEASECTL_SESSION, and the endpoints and root in use.

When the lock is lost, because etcd was silent for too long or somebody took it,
the command's process group gets SIGTERM, and SIGKILL before the lease can have
ended: nobody else holds the lock while the command runs, as long as clocks behave.
The same holds when leasectl is killed or stopped, for all that the command started;
leasectl help exec says what no program can stop. SIGHUP, SIGINT, SIGQUIT and SIGTERM
end the command with --grace, and give the lock back.

Who only waits keeps waiting over an outage of etcd, behind those who did not lose
their place. The exit code is that of the command, or
  121  the lock was lost, and the command was stopped
  124  not acquired within --timeout
  125  leasectl failed
  126  the command cannot be executed; 127: it is not found`,
		GroupID: cli.GroupWork,
		Example: `  leasectl lock deploy -- ./deploy.sh
  leasectl lock backup --timeout 0s -- ./backup.sh      # not at all if it is held
  leasectl lock deploy --ttl 5s --timeout 1m -- ./deploy.sh`,
	})
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "give up after `TIME`; 0s does not wait, without it the wait has no end")
	return cmd
}

// inLine is whether to wait, and how long.
func (o *underOptions) inLine(cmd *cobra.Command) error {
	f := cmd.Flags().Lookup("timeout")
	o.forever = f == nil || !f.Changed
	badTTL := cli.CheckTTL(o.ttl)
	switch {
	case o.timeout < 0:
		return exit.Usagef("--timeout 0s", "--timeout is %v: it must not be negative", o.timeout)
	case badTTL != nil:
		return badTTL
	case o.grace < 0:
		return exit.Usagef("--grace 10s", "--grace is %v: it must not be negative", o.grace)
	}
	return nil
}
