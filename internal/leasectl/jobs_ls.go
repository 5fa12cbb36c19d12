package leasectl

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/workqueue"
)

func newJobsLs(a *app) *cobra.Command {
	var s selection
	var o listOptions
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
		Args:    takes("[QUEUE]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.parse(args); err != nil {
				return err
			}
			s.limited = cmd.Flags().Changed("limit")
			if s.limited && s.limit <= 0 {
				return usagef("leave it out to see all", "--limit is %d: it must be positive", s.limit)
			}
			return listSelected(cmd.Context(), a, o, s)
		},
	}
	s.addFlags(cmd)
	cmd.Flags().IntVar(&s.limit, "limit", 0, "print the first `N` jobs only")
	o.addFlags(cmd)
	return cmd
}

// listSelected lists jobs, or follows them.
func listSelected(ctx context.Context, a *app, o listOptions, s selection) error {
	return runList(ctx, a, o, lister[jobItem]{
		view: jobColumns(func(i jobItem) *jobItem { return &i }),
		load: func(ctx context.Context, c *connection) ([]jobItem, error) {
			items, err := loadJobs(ctx, a, c, s, !o.watch)
			if err == nil && o.shows(a, "LEASE-TTL") {
				err = addLeaseTimes(ctx, a, c, items)
			}
			return items, err
		},
		prefixes: func(keys keyspace.Keyspace) []string {
			if s.named {
				prefixes := []string{keys.Sessions()}
				for _, q := range s.queues {
					prefixes = append(prefixes, keys.Queue(q).Prefix())
				}
				return prefixes
			}
			return []string{keys.Queues(), keys.Sessions()}
		},
	})
}

// loadJobs reads the selected jobs whole before anything is printed, so that an error leaves no half list. With say it
// tells how many records it read, where that is not just what is printed.
func loadJobs(ctx context.Context, a *app, c *connection, s selection, say bool) (items []jobItem, err error) {
	if !s.named {
		if s.queues, err = a.queues(ctx, c); err != nil {
			return nil, err
		}
		s.queues = slices.DeleteFunc(s.queues, func(name string) bool { return !s.filter.wantsQueue(name) })
	}
	read := 0
	if items, err = listJobs(ctx, a, c, s, &read); err != nil {
		return nil, err
	}
	if say && read == 0 && s.named && len(s.queues) == 1 {
		if err := a.noteNewQueue(ctx, c, s.queues[0]); err != nil {
			return nil, err
		}
	}
	switch {
	case !say || read <= len(items):
	case s.limited && len(items) >= s.limit:
		a.notef("the first %d, of %d records that were read", len(items), read)
	default:
		a.notef("%d of %d records that were read", len(items), read)
	}
	return items, nil
}

// listJobs reads the selected jobs, a named one of a named queue by itself.
func listJobs(ctx context.Context, a *app, c *connection, s selection, read *int) (items []jobItem, err error) {
	if s.filter.never() {
		return nil, nil
	}
	now := time.Now()
	if id, ok := s.filter.id(); ok && len(s.queues) == 1 {
		return findJob(ctx, a, c, jobRef{s.queues[0], id}, func(j *workqueue.Job) bool { return s.filter.matches(j, now) })
	}
	for j, err := range c.queues().List(ctx, s.queues, s.library(now, read)) {
		switch {
		case unreadable(err):
			a.notef("warning: %s", errorText(err))
		case err != nil:
			return nil, err
		case a.usable("id", j.ID):
			items = append(items, itemOf(j))
		}
	}
	return items, nil
}

// findJob is a list of one job, if it is there and matches.
func findJob(ctx context.Context, a *app, c *connection, ref jobRef, matches func(*workqueue.Job) bool) ([]jobItem, error) {
	q, err := a.openQueue(ctx, c, ref.queue, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = q.Close() }() // nothing was written
	j, err := getJob(ctx, a, q, ref)
	switch {
	case errors.Is(err, workqueue.ErrNotFound) || err == nil && !matches(j):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return []jobItem{itemOf(j)}, nil
}
