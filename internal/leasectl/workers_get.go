package leasectl

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func newWorkersGet(a *app) *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:   "get WORKER",
		Short: "Show one session",
		Long: `Show one session, named by its ID, by its lease in hex, or by a name that no other
session has.`,
		Example: `  leasectl workers get w-7f31
  leasectl workers get w-7f31.390da227f8f8ce2f -o json`,
		Args: takes("WORKER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runItem(cmd.Context(), a, o, lister[workerItem]{
				view: workerView,
				load: func(ctx context.Context, c *connection) ([]workerItem, error) {
					w, err := findWorker(ctx, a, c, args[0])
					return []workerItem{w}, err
				},
				prefixes: workerPrefixes,
			})
		},
	}
	o.addFlags(cmd)
	return cmd
}

// findWorker finds one session by its ID, its lease or its name.
func findWorker(ctx context.Context, a *app, c *connection, name string) (workerItem, error) {
	name = strings.TrimPrefix(name, "worker/")
	all, err := loadWorkers(ctx, a, c)
	if err != nil {
		return workerItem{}, err
	}
	var found []workerItem
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
		return workerItem{}, &failure{code: exitNotFound, err: fmt.Errorf("there is no session %q", name), try: "leasectl workers ls"}
	}
	var sids []string
	for _, w := range found {
		sids = append(sids, w.Session)
	}
	return workerItem{}, usagef("one of "+strings.Join(sids, ", "), "%d sessions are called %q", len(found), name)
}
