package leasectl

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/workqueue"
)

var allStates = []workqueue.State{
	workqueue.StateReady, workqueue.StateScheduled, workqueue.StateRetry, workqueue.StateClaimed,
	workqueue.StateOrphan, workqueue.StateDone, workqueue.StateDead, workqueue.StateCancelled,
}

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

// selection is which jobs of which queues a verb means.
type selection struct {
	text   string
	states []string
	kind   string

	filter  filter
	queues  []string // that can have such jobs, if named
	named   bool
	limit   int
	limited bool
}

func (s *selection) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.text, "filter", "", "only jobs that match `FILTER`, such as 'state:dead kind:send*' (leasectl help filters)")
	f.StringSliceVar(&s.states, "state", nil, "only jobs in `STATE`[,STATE...]: "+joinStates())
	f.StringVar(&s.kind, "kind", "", "only jobs of `KIND`")
}

// parse makes one filter of all the flags; args may name a queue.
func (s *selection) parse(args []string) (err error) {
	if s.filter, err = parseFilter(s.text); err != nil {
		return err
	}
	if len(s.states) > 0 {
		t := filterTerm{field: "state"}
		for _, name := range s.states {
			if !slices.Contains(allStates, workqueue.State(name)) {
				return usagef("leasectl help states", "--state %q is none of %s", name, joinStates())
			}
			t.states = append(t.states, workqueue.State(name))
		}
		t.testStates()
		s.filter.terms = append(s.filter.terms, t)
	}
	if s.kind != "" {
		kind := s.kind
		s.filter.terms = append(s.filter.terms, filterTerm{field: "kind", exact: []string{kind},
			test: func(j *workqueue.Job, _ time.Time) bool { return j.Kind == kind }})
	}
	s.queues, s.named = s.filter.queues()
	if len(args) > 0 {
		if s.named && !slices.Contains(s.queues, args[0]) {
			return usagef("leave one of them out", "QUEUE is %q, but --filter says queue:%s", args[0], strings.Join(s.queues, ","))
		}
		s.queues, s.named = args[:1], true
	}
	return nil
}

func joinStates() string {
	var names []string
	for _, s := range allStates {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
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

func (a *app) queues(ctx context.Context, c *connection) ([]string, error) {
	names, err := c.queues().Names(ctx)
	if code := exitCode(err); code == exitAuth {
		return nil, &failure{err: err, try: "name the QUEUE that you may read, where the command takes one, or grant the user read on " + c.root}
	}
	return slices.DeleteFunc(names, func(name string) bool { return !a.usable("queue", name) }), err
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

// library is the selection as the library takes it: what it can tell from a record's head is told apart, since all
// else needs the whole record.
func (s selection) library(now time.Time, read *int) workqueue.Filter {
	f := workqueue.Filter{States: s.filter.states(), Read: read}
	if s.limited {
		f.Limit = s.limit
	}
	f.ID, _ = s.filter.id()
	rest := filter{}
	for _, t := range s.filter.terms {
		switch {
		case t.field == "state" && !t.not:
		case t.field == "queue" && !t.not && t.exact != nil:
		case t.field == "kind" && !t.not && len(t.exact) == 1 && f.Kind == "" && t.exact[0] != "":
			f.Kind = t.exact[0]
		default:
			rest.terms = append(rest.terms, t)
		}
	}
	if !rest.empty() {
		f.Match = func(j *workqueue.Job) bool { return rest.matches(j, now) }
	}
	return f
}
