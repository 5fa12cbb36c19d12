package leasectl

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/leasectl/escape"
	"github.com/leasekit/leasekit/workqueue"
	"github.com/spf13/cobra"
)

func newJobsWait(a *app) *cobra.Command {
	var states []string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait QUEUE/ID",
		Short: "Wait until a job is done, or in another state",
		Long: `Wait until a job is in one of the states of --for, and print it. It watches etcd, and
does not ask again and again. It waits for the job that has the ID when it begins: when
that is over and the ID enqueued again, for the first one all the same.

Exit codes: 0 the job is in such a state; 1 it is over, in another state, which it
will not leave by itself; 3 there is no such job, or no longer; 6 the --timeout is
over.`,
		Example: `  leasectl jobs wait mail/welcome-7
  leasectl jobs wait mail/welcome-7 --for done --timeout 1m -o json
  leasectl jobs wait mail/welcome-7 --for claimed`,
		Args: takes("QUEUE/ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := parseJobRef(args[0])
			if err != nil {
				return err
			}
			t := filterTerm{}
			for _, name := range states {
				if !slices.Contains(allStates, workqueue.State(name)) {
					return usagef("leasectl help states", "--for %q is none of %s", name, joinStates())
				}
				t.states = append(t.states, workqueue.State(name))
			}
			if cmd.Flags().Changed("timeout") && timeout <= 0 {
				return usagef("leave it out to wait for ever", "--timeout is %v: it must be positive", timeout)
			}
			t.testStates()
			format, err := a.format(listFormats...)
			if err != nil {
				return err
			}
			return a.waitForJob(cmd.Context(), format, ref, t.states, timeout)
		},
	}
	cmd.Flags().StringSliceVar(&states, "for", []string{"done", "dead", "cancelled"}, "wait for `STATE`[,STATE...]: "+joinStates())
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "wait at most `TIME` (default: for ever)")
	return cmd
}

func (a *app) waitForJob(ctx context.Context, format string, ref jobRef, states []workqueue.State, timeout time.Duration) error {
	return a.withQueue(ctx, ref.queue, func(c *connection, q *workqueue.Queue) error {
		store, err := coord.NewStore(c.Client, c.root, nil)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var over <-chan time.Time
		if timeout > 0 {
			timer := time.NewTimer(timeout)
			defer timer.Stop()
			over = timer.C
		}
		keys := store.Keys().Queue(ref.queue)
		prefixes := []string{keys.Job(ref.id), keys.Done(ref.id), keys.Dead(ref.id)}
		if slices.Contains(states, workqueue.StateOrphan) {
			prefixes = append(prefixes, store.Keys().Sessions())
		}
		changed := watchPrefixes(ctx, store, prefixes)
		defer watchOver(ctx, c, a.notef)()
		var met *workqueue.Job // the job that is waited for: the ID may become another's
		for begun := false; ; begun = true {
			j, err := a.getSame(ctx, q, ref, met)
			if err != nil {
				if err := outlast(ctx, begun, over, err); err != nil {
					return err
				}
				continue
			}
			met = j
			switch {
			case slices.Contains(states, j.State):
				return a.printJob(format, j)
			case !j.State.Live():
				return &failure{code: exitFailed, err: fmt.Errorf("job %s is %s%s, which is none of %s", refText(j), j.State, whyText(lastLine(j.Error)), stateNames(states)), try: "leasectl jobs describe " + escape.Shell(refText(j))}
			}
			due, stop := dueChange(j)
			select {
			case <-ctx.Done():
				stop()
				return context.Cause(ctx)
			case <-over:
				stop()
				return &failure{code: exitUnreachable, err: fmt.Errorf("job %s is still %s after %v", refText(j), j.State, timeout), try: "a longer --timeout"}
			case <-due:
			case err := <-changed:
				if err != nil {
					stop()
					return err
				}
			}
			stop()
		}
	})
}

// getSame is getJob, bound to the job that was met, nil at first: when its ID is another's by now, it is as it ended.
func (a *app) getSame(ctx context.Context, q *workqueue.Queue, ref jobRef, met *workqueue.Job) (*workqueue.Job, error) {
	j, err := a.getJob(ctx, q, ref)
	if err != nil || met == nil || j.Born == met.Born {
		return j, err
	}
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	return q.WaitFor(ctx, met)
}

// dueChange fires when a job becomes ready by the clock alone.
func dueChange(j *workqueue.Job) (<-chan time.Time, func()) {
	if j.State != workqueue.StateScheduled && j.State != workqueue.StateRetry {
		return nil, func() {}
	}
	t := time.NewTimer(max(time.Until(j.RunAt), time.Millisecond))
	return t.C, func() { t.Stop() }
}

func stateNames(states []workqueue.State) string {
	var names []string
	for _, s := range states {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}
