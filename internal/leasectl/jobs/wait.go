package jobs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/filter"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/workqueue"
)

func newJobsWait(a *cli.App) *cobra.Command {
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
		Args: cli.Takes("QUEUE/ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := cli.ParseJobRef(args[0])
			if err != nil {
				return err
			}
			wanted, err := filter.ParseStates("for", states)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("timeout") && timeout <= 0 {
				return exit.Usagef("leave it out to wait for ever", "--timeout is %v: it must be positive", timeout)
			}
			format, err := a.Format(output.ListFormats...)
			if err != nil {
				return err
			}
			return waitForJob(cmd.Context(), a, format, ref, wanted, timeout)
		},
	}
	cmd.Flags().StringSliceVar(&states, "for", []string{"done", "dead", "cancelled"}, "wait for `STATE`[,STATE...]: "+filter.JoinStates())
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "wait at most `TIME` (default: for ever)")
	return cmd
}

func waitForJob(ctx context.Context, a *cli.App, format string, ref cli.JobRef, states []workqueue.State, timeout time.Duration) error {
	return a.WithQueue(ctx, ref.Queue, func(c *connect.Conn, q *workqueue.Queue) error {
		j, err := awaitState(ctx, a, c, q, awaited{ref: ref, states: states, orphans: slices.Contains(states, workqueue.StateOrphan), timeout: timeout})
		switch {
		case err != nil:
			return err
		case slices.Contains(states, j.State):
			return Print(a, format, j)
		}
		return &exit.Error{Code: exit.Failed, Err: fmt.Errorf("job %s is %s%s, which is none of %s", cli.TextOf(j), j.State, output.Why(output.LastLine(j.Error)), stateNames(states)), Try: "leasectl jobs describe " + escape.Shell(cli.TextOf(j))}
	})
}

// awaited is what is waited for: one of the states, or the end of the job.
type awaited struct {
	ref     cli.JobRef
	met     *workqueue.Job // the job itself, since the ID may become another's; nil: the one that has the ID at first
	states  []workqueue.State
	orphans bool          // it matters when the owner goes
	timeout time.Duration // 0: for ever
	// see is called, where it is not nil, with what the job is at each look.
	see func(*workqueue.Job) error
}

// awaitState waits until the job is in one of the states, or over, and returns it. It watches etcd, and outlasts its
// troubles.
func awaitState(ctx context.Context, a *cli.App, c *connect.Conn, q *workqueue.Queue, w awaited) (*workqueue.Job, error) {
	store := c.Store()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var over <-chan time.Time
	if w.timeout > 0 {
		timer := time.NewTimer(w.timeout)
		defer timer.Stop()
		over = timer.C
	}
	keys := store.Keys().Queue(w.ref.Queue)
	prefixes := []string{keys.Job(w.ref.ID), keys.Done(w.ref.ID), keys.Dead(w.ref.ID)}
	if w.orphans {
		prefixes = append(prefixes, store.Keys().Sessions())
	}
	changed := a.WatchPrefixes(ctx, store, prefixes)
	defer connect.WatchOver(ctx, c, a.Notef)()
	for begun := false; ; begun = true {
		j, err := getSame(ctx, a, q, w.ref, w.met)
		if err != nil {
			if err := connect.Outlast(ctx, begun, over, err); err != nil {
				return nil, err
			}
			continue
		}
		w.met = j
		if w.see != nil {
			if err := w.see(j); err != nil {
				return nil, err
			}
		}
		if slices.Contains(w.states, j.State) || !j.State.Live() {
			return j, nil
		}
		if err := w.awaitChange(ctx, j, changed, over); err != nil {
			return nil, err
		}
	}
}

// awaitChange returns when the job may be in another state, and why there is no use in waiting on.
func (w awaited) awaitChange(ctx context.Context, j *workqueue.Job, changed <-chan error, over <-chan time.Time) error {
	due, stop := dueChange(j)
	defer stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-over:
		return &exit.Error{Code: exit.Unreachable, Err: fmt.Errorf("job %s is still %s after %v", cli.TextOf(j), j.State, w.timeout), Try: "wait longer, or leasectl jobs describe " + escape.Shell(cli.TextOf(j))}
	case <-due:
		return nil
	case err := <-changed:
		return err
	}
}

// getSame is Get, bound to the job that was met, nil at first: when its ID is another's by now, it is as it ended.
func getSame(ctx context.Context, a *cli.App, q *workqueue.Queue, ref cli.JobRef, met *workqueue.Job) (*workqueue.Job, error) {
	j, err := Get(ctx, a, q, ref)
	if err != nil || met == nil || j.Born == met.Born {
		return j, err
	}
	ctx, cancel := a.Bounded(ctx)
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
