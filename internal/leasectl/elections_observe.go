package leasectl

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/election"
	"github.com/leasekit/leasekit/internal/etcdkv"
)

func newElectionsObserve(a *app) *cobra.Command {
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
		Args: takes("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if changes < 0 {
				return usagef("--changes 1", "--changes is %d: it must not be negative", changes)
			}
			format, err := a.format(formatTable, formatJSON)
			if err != nil {
				return err
			}
			return a.withEtcd(cmd.Context(), func(c *connection) error {
				ctx, stop := a.whileRead(cmd.Context())
				defer stop()
				return orUnread(ctx, observe(ctx, a, c, args[0], format, changes))
			})
		},
	}
	cmd.Flags().IntVar(&changes, "changes", 0, "end after `N` lines; 0 is never")
	return cmd
}

func observe(ctx context.Context, a *app, c *connection, name, format string, changes int) error {
	e, err := election.New(c.Client, election.Config{Name: name, Root: c.root, Identity: a.settings.identity})
	if err != nil {
		return err
	}
	// An observer outlasts every trouble, so what it may never see is found out first.
	bounded, done := a.bounded(ctx)
	defer done()
	if _, err := e.Candidates(bounded); exitCode(err) == exitAuth {
		return err
	}
	observing, cancel := context.WithCancel(ctx)
	store, err := etcdkv.NewStore(c.Client, c.root, nil)
	if err != nil {
		cancel()
		return err
	}
	a.watchPrefixes(observing, store, []string{store.Keys().Election(name)}) // which tells when history went back
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

func printObserved(a *app, format string, s election.State) error {
	line := observedLine{AsOf: s.AsOf.UTC(), Status: s.Status, Leader: s.Session}
	if !s.Token.IsZero() {
		line.Token = s.Token.String()
	}
	if s.AsOf.IsZero() {
		line.AsOf = time.Time{}
	}
	if format == formatJSON {
		return printLines(a.out, []observedLine{line})
	}
	at := "never"
	if !line.AsOf.IsZero() {
		at = s.AsOf.Format("15:04:05.000")
	}
	return a.printLine(fmt.Sprintf("%s  %s  %s  %s", at, s.Status, oneCell(s.Session), oneCell(line.Token)))
}
