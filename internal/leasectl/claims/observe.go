package claims

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/election"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
)

func newElectionsObserve(a *cli.App) *cobra.Command {
	var changes int
	cmd := &cobra.Command{
		Use:   "observe NAME",
		Short: "Tell who leads, now and at every change",
		Long: `Tell who leads, now and at every change, one line each, until it is stopped: the
time at which etcd confirmed it, the status, the leader's session and its token.
unknown means that etcd could not tell lately, never that nobody leads. When etcd's
history went back, as after a restore from a backup, stderr says so: tokens begin
again then.`,
		Example: `  leasectl elections observe scheduler
  leasectl elections observe scheduler -o json | jq -r .leader
  leasectl elections observe scheduler --changes 1     # what is known now`,
		Args: cli.Takes("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if changes < 0 {
				return exit.Usagef("--changes 1", "--changes is %d: it must not be negative", changes)
			}
			format, err := a.Format(output.Table, output.JSON)
			if err != nil {
				return err
			}
			return a.WithEtcd(cmd.Context(), func(c *connect.Conn) error {
				ctx, stop := a.WhileRead(cmd.Context())
				defer stop()
				return connect.OrUnread(ctx, observe(ctx, a, c, args[0], format, changes))
			})
		},
	}
	cmd.Flags().IntVar(&changes, "changes", 0, "end after `N` lines; 0 is never")
	return cmd
}

func observe(ctx context.Context, a *cli.App, c *connect.Conn, name, format string, changes int) error {
	e, err := election.New(c.Client, election.Config{Name: name, Root: c.Root, Identity: a.Settings.Identity})
	if err != nil {
		return err
	}
	// An observer outlasts every trouble, so what it may never see is found out first.
	bounded, done := a.Bounded(ctx)
	defer done()
	if _, err := e.Candidates(bounded); exit.Code(err) == exit.Auth {
		return err
	}
	observing, cancel := context.WithCancel(ctx)
	store := c.Store()
	a.WatchPrefixes(observing, store, []string{store.Keys().Election(name)}) // which tells when history went back
	states := e.Observe(observing)
	defer func() {
		cancel()
		for range states {
		}
	}()
	n := 0
	for s := range states {
		if err := printObserved(a, format, s); err != nil {
			return err
		}
		if n++; n == changes {
			return nil
		}
	}
	return context.Cause(ctx)
}

// observedLine is one state in JSON, in one line.
type observedLine struct {
	AsOf   time.Time       `json:"as_of,omitzero"`
	Status election.Status `json:"status"`
	Leader string          `json:"leader"`
	Token  string          `json:"token"`
}

func printObserved(a *cli.App, format string, s election.State) error {
	line := observedLine{AsOf: s.AsOf.UTC(), Status: s.Status, Leader: s.Session}
	if !s.Token.IsZero() {
		line.Token = s.Token.String()
	}
	if s.AsOf.IsZero() {
		line.AsOf = time.Time{}
	}
	if format == output.JSON {
		return output.PrintLines(a.Out, []observedLine{line})
	}
	at := "never"
	if !line.AsOf.IsZero() {
		at = s.AsOf.Format("15:04:05.000")
	}
	return a.PrintLine(fmt.Sprintf("%s  %s  %s  %s", at, s.Status, output.OneCell(s.Session), output.OneCell(line.Token)))
}
