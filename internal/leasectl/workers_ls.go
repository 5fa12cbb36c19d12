package leasectl

import (
	"context"

	"github.com/leasekit/leasekit/coord"
	"github.com/spf13/cobra"
)

func newWorkersLs(a *app) *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the sessions with what they serve and own",
		Long: `List the sessions with what they serve and own. BUSY is jobs of concurrency; TTL what is
left of the lease and what was granted; LAST-BEAT the time since its renewal. STATE
is live; unlisted: it owns jobs of a queue for which it is not registered, since it
drains or works from a script; or LOST: it is gone, and what it owns are orphans.`,
		Example: `  leasectl workers ls
  leasectl workers ls -o wide
  leasectl workers ls -w`,
		Aliases: []string{"list"},
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runList(cmd.Context(), a, o, lister[workerItem]{
				view: workerView, load: a.loadWorkers, prefixes: workerPrefixes,
			})
		},
	}
	o.addFlags(cmd)
	return cmd
}

func workerPrefixes(keys coord.Keyspace) []string { return []string{keys.Sessions(), keys.Queues()} }

func (a *app) loadWorkers(ctx context.Context, c *connection) ([]workerItem, error) {
	queues, err := a.readClaims(ctx, c)
	if err != nil {
		return nil, err
	}
	return a.readWorkers(ctx, c, queues)
}

// readClaims counts the jobs of all queues by owner, and nothing of what is over.
func (a *app) readClaims(ctx context.Context, c *connection) (items []queueItem, err error) {
	names, err := a.queues(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		q, err := a.openQueue(ctx, c, name, nil)
		if err != nil {
			return nil, err
		}
		s, err := q.Stats(ctx)
		_ = q.Close() // nothing was written
		switch {
		case unreadable(err): // it must not hide the others
			a.notef("warning: %s", errorText(err))
		case err != nil:
			return nil, err
		default:
			items = append(items, queueItem{Name: name, claims: s.Claims})
		}
	}
	return items, nil
}
