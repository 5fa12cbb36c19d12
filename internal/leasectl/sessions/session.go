// Package sessions has the verbs about sessions, held from scripts, and about leases.
package sessions

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
)

// New is leasectl session.
func New(a *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "session",
		Short: "Hold a session from scripts, one command at a time",
		Long: `Hold a session from scripts: what a worker in any language does to be alive. The
session's lease runs without a process; somebody has to renew it before its TTL is
over, else what it claimed is taken over. See leasectl help scripts.`,
		GroupID: cli.GroupWork,
		Example: `  S=$(leasectl session open --as node-a --ttl 30s)
  leasectl session keepalive "$S"      # at least every TTL/3
  leasectl session close "$S"`,
	}, cli.Writes(newSessionOpen(a)), cli.Writes(newSessionKeepalive(a)), cli.Writes(newSessionClose(a)))
}

// sessionItem is a session as these verbs print it.
type sessionItem struct {
	Session string `json:"session"`
	TTL     int64  `json:"ttl"` // seconds, as granted
}

func printSession(a *cli.App, format string, s *coord.Session) error {
	if format == output.JSON {
		return output.PrintJSON(a.Out, sessionItem{s.ID(), int64(s.TTL() / time.Second)})
	}
	return a.PrintLine(s.ID())
}

func newSessionOpen(a *cli.App) *cobra.Command {
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "open",
		Short: "Open a session and print its ID",
		Long: `Open a session and print its ID. It lives for its TTL from now, and for as long
again at each leasectl session keepalive. etcd raises a TTL below its minimum (2 s
by default); -o json shows the granted one, in seconds.`,
		Example: `  S=$(leasectl session open --as node-a --ttl 30s)
  leasectl session open -o json`,
		Args: cli.Takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.CheckTTL(ttl); err != nil { // to the library 0 is its default
				return err
			}
			return withSession(cmd.Context(), a, coord.SessionConfig{Identity: a.Settings.Identity, TTL: ttl}, func(ctx context.Context, format string, s *coord.Session) error {
				if err := s.Leave(ctx); err != nil {
					return err
				}
				return output.Told("session "+s.ID()+" is open", printSession(a, format, s))
			})
		},
	}
	cmd.Flags().DurationVar(&ttl, "ttl", 10*time.Second, "others take over `TIME` after the last renewal")
	return cmd
}

func newSessionKeepalive(a *cli.App) *cobra.Command {
	return newSessionStep(a, (*coord.Session).Leave, &cobra.Command{ // resuming has renewed it
		Use:   "keepalive SESSION",
		Short: "Renew a session once",
		Long: `Renew a session once: it lives for its TTL from now. Call it at least every third
of the TTL. Exit code 5 means that the session is gone: stop what was claimed under
it, since others may have begun.`,
		Example: `  leasectl session keepalive "$S"
  while leasectl session keepalive "$S" >/dev/null; do sleep 3; done &`,
	})
}

func newSessionClose(a *cli.App) *cobra.Command {
	return newSessionStep(a, (*coord.Session).Close, &cobra.Command{
		Use:   "close SESSION",
		Short: "End a session at once",
		Long: `End a session at once. Close its jobs first: one that it still owns becomes an
orphan, which the next worker takes over and counts as a loss.`,
		Example: `  leasectl session close "$S"`,
	})
}

// newSessionStep completes a verb that does one thing with a session that is there.
func newSessionStep(a *cli.App, do func(*coord.Session, context.Context) error, cmd *cobra.Command) *cobra.Command {
	cmd.Args = cli.Takes("SESSION")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if args[0] == "" {
			return exit.Usagef("S=$(leasectl session open)", "SESSION is empty: a name that a script forgot would be a new session")
		}
		return withSession(cmd.Context(), a, coord.SessionConfig{Resume: args[0]}, func(ctx context.Context, format string, s *coord.Session) error {
			if err := do(s, ctx); err != nil {
				return err
			}
			return printSession(a, format, s)
		})
	}
	return cmd
}

// withSession opens or resumes a session and calls f, which must end it in one way or the other.
func withSession(ctx context.Context, a *cli.App, cfg coord.SessionConfig, f func(context.Context, string, *coord.Session) error) error {
	format, err := a.Format(output.Name, output.JSON)
	if err != nil {
		return err
	}
	return a.WithEtcd(ctx, func(c *connect.Conn) error {
		ctx, cancel := a.Bounded(ctx)
		defer cancel()
		cfg.Root = c.Root
		s, err := coord.OpenSession(ctx, c.Client, cfg)
		if err != nil {
			return sessionGone(err)
		}
		return f(ctx, format, s)
	})
}

// sessionGone gives the error of a session that is no more its exit code and the way out.
func sessionGone(err error) error {
	if !errors.Is(err, coord.ErrSessionLost) {
		return err
	}
	return &exit.Error{Code: exit.Conflict, Err: err, Try: "leasectl session open"}
}

// Resume calls f with a session that lives without a process, under a context that ends with it, and leaves it so.
func Resume(ctx context.Context, a *cli.App, c *connect.Conn, session string, f func(context.Context, *coord.Session) error) (err error) {
	opening, cancel := a.Bounded(ctx)
	defer cancel()
	s, err := coord.OpenSession(opening, c.Client, coord.SessionConfig{Root: c.Root, Resume: session})
	if err != nil {
		return sessionGone(err)
	}
	defer func() {
		ctx, cancel := a.Bounded(context.WithoutCancel(ctx))
		defer cancel()
		err = errors.Join(err, s.Leave(ctx))
	}()
	working, stop := s.Context(ctx)
	defer stop()
	return f(working, s)
}
