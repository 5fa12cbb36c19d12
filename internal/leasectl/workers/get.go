package workers

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/look"
)

func newWorkersGet(a *cli.App) *cobra.Command {
	var o cli.ListOptions
	cmd := &cobra.Command{
		Use:   "get WORKER",
		Short: "Show one session",
		Long: `Show one session, named by its ID, by its lease in hex, or by a name that no other
session has.`,
		Example: `  leasectl workers get w-7f31
  leasectl workers get w-7f31.390da227f8f8ce2f -o json`,
		Args: cli.Takes("WORKER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return cli.RunItem(cmd.Context(), a, o, cli.Lister[look.Worker]{
				View: look.WorkerView,
				Load: func(ctx context.Context, c *connect.Conn) ([]look.Worker, error) {
					w, err := findWorker(ctx, a, c, args[0])
					return []look.Worker{w}, err
				},
				Prefixes: workerPrefixes,
			})
		},
	}
	o.AddFlags(cmd)
	return cmd
}

// findWorker finds one session by its ID, its lease or its name.
func findWorker(ctx context.Context, a *cli.App, c *connect.Conn, name string) (look.Worker, error) {
	name = strings.TrimPrefix(name, "worker/")
	all, err := loadWorkers(ctx, a, c)
	if err != nil {
		return look.Worker{}, err
	}
	var found []look.Worker
	for _, w := range all {
		if w.Session == name || w.Lease != "" && w.Lease == strings.ToLower(name) {
			return w, nil
		}
		if w.Name == name {
			found = append(found, w)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return look.Worker{}, &exit.Error{Code: exit.NotFound, Err: fmt.Errorf("there is no session %q", name), Try: "leasectl workers ls"}
	}
	var sids []string
	for _, w := range found {
		sids = append(sids, w.Session)
	}
	return look.Worker{}, exit.Usagef("one of "+strings.Join(sids, ", "), "%d sessions are called %q", len(found), name)
}
