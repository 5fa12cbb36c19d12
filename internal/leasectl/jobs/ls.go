package jobs

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/filter"
	"github.com/leasekit/leasekit/workqueue"
)

func newJobsLs(a *cli.App) *cobra.Command {
	var s filter.Selection
	var o cli.ListOptions
	cmd := &cobra.Command{
		Use:   "ls [QUEUE]",
		Short: "List the jobs of a queue, or of all queues",
		Long: `List jobs: live ones in the order in which they will be claimed, then dead ones,
then those that are done or cancelled and still kept. A queue that nobody has
used is an empty list, with a note, since a typing error looks like that. What --filter can ask is told by leasectl help filters.`,
		Example: `  leasectl jobs ls
  leasectl jobs ls mail --state dead,retry
  leasectl jobs ls --filter 'queue:mail state:claimed running:>5m' -o wide
  leasectl jobs ls mail --limit 50
  leasectl jobs ls mail --state dead -o name | xargs -n 1 leasectl jobs requeue`,
		Aliases: []string{"list"},
		Args:    cli.Takes("[QUEUE]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.Parse(args); err != nil {
				return err
			}
			s.Limited = cmd.Flags().Changed("limit")
			if s.Limited && s.Limit <= 0 {
				return exit.Usagef("leave it out to see all", "--limit is %d: it must be positive", s.Limit)
			}
			return listSelected(cmd.Context(), a, o, s)
		},
	}
	s.AddFlags(cmd)
	cmd.Flags().IntVar(&s.Limit, "limit", 0, "print the first `N` jobs only")
	o.AddFlags(cmd)
	return cmd
}

// listSelected lists jobs, or follows them.
func listSelected(ctx context.Context, a *cli.App, o cli.ListOptions, s filter.Selection) error {
	return cli.RunList(ctx, a, o, cli.Lister[Item]{
		View: jobColumns(func(i Item) *Item { return &i }),
		Load: func(ctx context.Context, c *connect.Conn) ([]Item, error) {
			items, err := Load(ctx, a, c, s, !o.Watch)
			if err == nil && o.Shows(a, "LEASE-TTL") {
				err = addLeaseTimes(ctx, a, c, items)
			}
			return items, err
		},
		Prefixes: func(keys keyspace.Keyspace) []string {
			if s.Named {
				prefixes := []string{keys.Sessions()}
				for _, q := range s.Queues {
					prefixes = append(prefixes, keys.Queue(q).Prefix())
				}
				return prefixes
			}
			return []string{keys.Queues(), keys.Sessions()}
		},
	})
}

// Load reads the selected jobs whole before anything is printed, so that an error leaves no half list. With say it
// tells how many records it read, where that is not just what is printed.
func Load(ctx context.Context, a *cli.App, c *connect.Conn, s filter.Selection, say bool) (items []Item, err error) {
	if !s.Named {
		if s.Queues, err = a.QueueNames(ctx, c); err != nil {
			return nil, err
		}
		s.Queues = slices.DeleteFunc(s.Queues, func(name string) bool { return !s.Filter.WantsQueue(name) })
	}
	read := 0
	if items, err = listJobs(ctx, a, c, s, &read); err != nil {
		return nil, err
	}
	if say && read == 0 && s.Named && len(s.Queues) == 1 {
		if err := a.NoteNewQueue(ctx, c, s.Queues[0]); err != nil {
			return nil, err
		}
	}
	switch {
	case !say || read <= len(items):
	case s.Limited && len(items) >= s.Limit:
		a.Notef("the first %d, of %d records that were read", len(items), read)
	default:
		a.Notef("%d of %d records that were read", len(items), read)
	}
	return items, nil
}

// listJobs reads the selected jobs, a named one of a named queue by itself.
func listJobs(ctx context.Context, a *cli.App, c *connect.Conn, s filter.Selection, read *int) (items []Item, err error) {
	if s.Filter.Never() {
		return nil, nil
	}
	now := time.Now()
	if id, ok := s.Filter.ID(); ok && len(s.Queues) == 1 {
		return findJob(ctx, a, c, cli.JobRef{Queue: s.Queues[0], ID: id}, func(j *workqueue.Job) bool { return s.Filter.Matches(j, now) })
	}
	for j, err := range c.Queues().List(ctx, s.Queues, s.Library(now, read)) {
		switch {
		case cli.Unreadable(err):
			a.Notef("warning: %s", exit.Text(err))
		case err != nil:
			return nil, err
		case a.Usable("id", j.ID):
			items = append(items, itemOf(j))
		}
	}
	return items, nil
}

// findJob is a list of one job, if it is there and matches.
func findJob(ctx context.Context, a *cli.App, c *connect.Conn, ref cli.JobRef, matches func(*workqueue.Job) bool) ([]Item, error) {
	j, err := getAlone(ctx, a, c, ref)
	switch {
	case errors.Is(err, workqueue.ErrNotFound) || err == nil && !matches(j):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return []Item{itemOf(j)}, nil
}
