package leasectl

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/coord"
)

func newSession(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "session",
		Short: "Hold a session from scripts, one command at a time",
		Long: `Hold a session from scripts: what a worker in any language does to be alive. The
session's lease runs without a process; somebody has to renew it before its TTL is
over, else what it claimed is taken over. See leasectl help scripts.`,
		GroupID: groupWork,
		Example: `  S=$(leasectl session open --as node-a --ttl 30s)
  leasectl session keepalive "$S"      # at least every TTL/3
  leasectl session close "$S"`,
	}, writes(newSessionOpen(a)), writes(newSessionKeepalive(a)), writes(newSessionClose(a)))
}

// sessionItem is a session as these verbs print it.
type sessionItem struct {
	Session string `json:"session"`
	TTL     int64  `json:"ttl"` // seconds, as granted
}

func printSession(a *app, format string, s *coord.Session) error {
	if format == formatJSON {
		return printJSON(a.out, sessionItem{s.ID(), int64(s.TTL() / time.Second)})
	}
	return a.printLine(s.ID())
}

func newSessionOpen(a *app) *cobra.Command {
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "open",
		Short: "Open a session and print its ID",
		Long: `Open a session and print its ID. It lives for its TTL from now, and for as long
again at each leasectl session keepalive. etcd raises a TTL below its minimum (2 s
by default); -o json shows the granted one, in seconds.`,
		Example: `  S=$(leasectl session open --as node-a --ttl 30s)
  leasectl session open -o json`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkTTL(ttl); err != nil { // to the library 0 is its default
				return err
			}
			return withSession(cmd.Context(), a, coord.SessionConfig{Identity: a.settings.identity, TTL: ttl}, func(ctx context.Context, format string, s *coord.Session) error {
				if err := s.Leave(ctx); err != nil {
					return err
				}
				return told("session "+s.ID()+" is open", printSession(a, format, s))
			})
		},
	}
	cmd.Flags().DurationVar(&ttl, "ttl", 10*time.Second, "others take over `TIME` after the last renewal")
	return cmd
}

func newSessionKeepalive(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "keepalive SESSION",
		Short: "Renew a session once",
		Long: `Renew a session once: it lives for its TTL from now. Call it at least every third
of the TTL. Exit code 5 means that the session is gone: stop what was claimed under
it, since others may have begun.`,
		Example: `  leasectl session keepalive "$S"
  while leasectl session keepalive "$S" >/dev/null; do sleep 3; done &`,
		Args: takes("SESSION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "" {
				return usagef("S=$(leasectl session open)", "SESSION is empty: a name that a script forgot would be a new session")
			}
			return withSession(cmd.Context(), a, coord.SessionConfig{Resume: args[0]}, func(ctx context.Context, format string, s *coord.Session) error {
				if err := s.Leave(ctx); err != nil { // resuming has renewed it
					return err
				}
				return printSession(a, format, s)
			})
		},
	}
}

func newSessionClose(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "close SESSION",
		Short: "End a session at once",
		Long: `End a session at once. Close its jobs first: one that it still owns becomes an
orphan, which the next worker takes over and counts as a loss.`,
		Example: `  leasectl session close "$S"`,
		Args:    takes("SESSION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "" {
				return usagef("S=$(leasectl session open)", "SESSION is empty: a name that a script forgot would be a new session")
			}
			return withSession(cmd.Context(), a, coord.SessionConfig{Resume: args[0]}, func(ctx context.Context, format string, s *coord.Session) error {
				if err := s.Close(ctx); err != nil {
					return err
				}
				return printSession(a, format, s)
			})
		},
	}
}

// withSession opens or resumes a session and calls f, which must end it in one way or the other.
func withSession(ctx context.Context, a *app, cfg coord.SessionConfig, f func(context.Context, string, *coord.Session) error) error {
	format, err := a.format(formatName, formatJSON)
	if err != nil {
		return err
	}
	return a.withEtcd(ctx, func(c *connection) error {
		ctx, cancel := a.bounded(ctx)
		defer cancel()
		cfg.Root = c.root
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
	return &failure{code: exitConflict, err: err, try: "leasectl session open"}
}

// withResumed connects and calls f with a session that lives without a process, and leaves it so.
func withResumed(ctx context.Context, a *app, session string, f func(context.Context, *connection, *coord.Session) error) error {
	return a.withEtcd(ctx, func(c *connection) error {
		return resume(ctx, a, c, session, func(ctx context.Context, s *coord.Session) error { return f(ctx, c, s) })
	})
}

// resume calls f with a session that lives without a process, under a context that ends with it, and leaves it so.
func resume(ctx context.Context, a *app, c *connection, session string, f func(context.Context, *coord.Session) error) (err error) {
	opening, cancel := a.bounded(ctx)
	defer cancel()
	s, err := coord.OpenSession(opening, c.Client, coord.SessionConfig{Root: c.root, Resume: session})
	if err != nil {
		return sessionGone(err)
	}
	defer func() {
		ctx, cancel := a.bounded(context.WithoutCancel(ctx))
		defer cancel()
		err = errors.Join(err, s.Leave(ctx))
	}()
	working, stop := s.Context(ctx)
	defer stop()
	return f(working, s)
}
