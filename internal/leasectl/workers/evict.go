package workers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/look"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/internal/leftover"
	"github.com/leasekit/leasekit/workqueue"
)

// evictItem is what became of a session and of its jobs, in JSON.
type evictItem struct {
	Session  string   `json:"session"`
	Lease    string   `json:"lease"`    // hex, as it was
	Released []string `json:"released"` // jobs that are open again, by this or by the session's own process, QUEUE/ID
	Taken    int      `json:"taken"`    // jobs that somebody else had taken over by then, or that were over
}

func newWorkersEvict(a *cli.App) *cobra.Command {
	var m cli.Mutation
	var rev int64
	cmd := &cobra.Command{
		Use:   "evict WORKER",
		Short: "End somebody's session and give its jobs back",
		Long: `End a session, as if its lease had run out, but at once: its process is told and
stops what it runs, its locks, leaderships and permits can be taken, and whatever it
still writes is refused. Its jobs that nobody has taken over by then are opened
again, uncounted, with --reason in their logs. A process that lives opens a new
session and goes on: to keep it away, stop it, or pause the queue first.

WORKER is a session's ID, its lease in hex, or a name that no other session has. It
has to be typed again.`,
		Example: `  leasectl workers evict w-19ee --reason "hangs since 10:02"
  leasectl workers evict w-19ee.390da227f8f8ce2f --yes`,
		Args: cli.Takes("WORKER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("revision") && rev <= 0 {
				return exit.Usagef("leasectl workers get "+escape.Shell(args[0])+" -o json", "--revision is %d: it must be positive", rev)
			}
			if len(m.Reason) > cli.MaxReason {
				return exit.Usagef("fewer words", "--reason has %d bytes, at most %d are kept", len(m.Reason), cli.MaxReason)
			}
			return runEvict(cmd.Context(), a, strings.TrimPrefix(args[0], "worker/"), m, rev)
		},
	}
	m.AddFlags(cmd.Flags())
	cmd.Flags().Int64Var(&rev, "revision", 0, "only if the session is still at revision `REV`, as workers get shows it")
	return cli.Destroys(cmd)
}

// runEvict looks at the session, says what it has, asks, and ends exactly that one. First the session, so that it claims
// nothing anew; then its jobs are given back.
func runEvict(ctx context.Context, a *cli.App, name string, m cli.Mutation, rev int64) error {
	format, err := a.Format(output.ResultFormats...)
	if err != nil {
		return err
	}
	return a.WithEtcd(ctx, func(c *connect.Conn) error {
		w, err := findWorker(ctx, a, c, name)
		if err != nil {
			return err
		}
		store := c.Store()
		key, err := evictable(ctx, store, w, rev)
		if err != nil {
			return err
		}
		lease := "lease " + w.Lease
		if key.Lease == 0 {
			lease = "no lease"
		}
		a.Notef("%s: %send session %s (%s, %s, revision %s, %s)", c.Where(), m.Would(), w.Session, w.State, lease, w.Revision, output.Count(w.Busy, "job"))
		if m.DryRun {
			return nil
		}
		statement := fmt.Sprintf("This ends session %s of %s in %s, which runs %s", w.Session, w.Name, c.Where(), output.Count(w.Busy, "job"))
		if err := a.ConfirmTyped(ctx, &m, "worker's name as above", name, statement); err != nil {
			return err
		}
		e := eviction{a: a, c: c, by: workqueue.By{Actor: cli.Actor(), Reason: m.Reason}, item: evictItem{Session: w.Session, Lease: w.Lease, Released: []string{}}}
		if err := e.inQueues(ctx, w, e.list); err != nil { // now: its process may give them back by itself, once it is told
			return err
		}
		if err := endSession(ctx, a, store, key); err != nil {
			return err
		}
		return e.giveBack(context.WithoutCancel(ctx), format, w)
	})
}

// endSession ends the lease of a session; of one that hangs on none, or on another one's, it deletes the key, if it is
// still as it was seen.
func endSession(ctx context.Context, a *cli.App, s *etcdkv.Store, key *mvccpb.KeyValue) error {
	ctx, cancel := a.Bounded(ctx)
	defer cancel()
	if p, _ := s.Keys().Parse(string(key.Key)); key.Lease != p.Lease() {
		return leftover.Delete(ctx, s, []*mvccpb.KeyValue{key})[0]
	}
	_, err := leftover.EndLease(ctx, s, string(key.Key), key.CreateRevision)
	return err
}

// evictable returns the key of the session that was shown, or why it cannot be ended.
func evictable(ctx context.Context, s *etcdkv.Store, w look.Worker, rev int64) (*mvccpb.KeyValue, error) {
	try := "leasectl workers get " + escape.Shell(w.Session)
	resp, err := s.Get(ctx, s.Keys().Session(w.Session))
	switch {
	case err != nil:
		return nil, err
	case len(resp.Kvs) == 0:
		return nil, &exit.Error{Code: exit.Conflict, Err: fmt.Errorf("evict %s: its session is gone, and anybody may take its jobs", w.Session), Try: "leasectl jobs ls --filter " + escape.Shell("worker:"+w.Session)}
	case w.Revision != fmt.Sprint(resp.Kvs[0].ModRevision):
		return nil, &exit.Error{Code: exit.Conflict, Err: fmt.Errorf("evict %s: it has changed while it was looked at", w.Session), Try: try}
	case rev != 0 && rev != resp.Kvs[0].ModRevision:
		return nil, &exit.Error{Code: exit.Conflict, Err: fmt.Errorf("evict %s: it is at revision %d, not %d", w.Session, resp.Kvs[0].ModRevision, rev), Try: try}
	}
	return resp.Kvs[0], nil
}

// eviction is a session that is ended, and what becomes of its jobs.
type eviction struct {
	a     *cli.App
	c     *connect.Conn
	by    workqueue.By
	item  evictItem
	owned map[cli.JobRef]int64 // its jobs, and the revisions of their claims
}

// inQueues calls f with each queue of which the session has jobs.
func (e *eviction) inQueues(ctx context.Context, w look.Worker, f func(context.Context, *workqueue.Queue) error) (failed error) {
	for _, wq := range w.Queues {
		if wq.Busy > 0 {
			failed = errors.Join(failed, e.a.OnQueue(ctx, e.c, wq.Queue, func(q *workqueue.Queue) error { return f(ctx, q) }))
		}
	}
	return failed
}

// list notes the session's jobs in a queue.
func (e *eviction) list(ctx context.Context, q *workqueue.Queue) error {
	if e.owned == nil {
		e.owned = map[cli.JobRef]int64{}
	}
	owned := workqueue.Filter{States: []workqueue.State{workqueue.StateClaimed, workqueue.StateOrphan}, Match: func(j *workqueue.Job) bool { return j.Owner == e.item.Session }}
	for j, err := range q.List(ctx, owned) {
		switch {
		case err == nil:
			e.owned[cli.JobRef{Queue: j.Queue, ID: j.ID}] = j.Revision
		case !cli.Unreadable(err):
			return err
		}
	}
	return nil
}

// giveBack opens the jobs of a session that has ended, unless somebody was faster. What cannot be opened is an orphan,
// which its queue's workers take over.
func (e *eviction) giveBack(ctx context.Context, format string, w look.Worker) error {
	failed := e.inQueues(ctx, w, func(ctx context.Context, q *workqueue.Queue) error {
		if err := e.list(ctx, q); err != nil { // what it claimed in its last moment
			return err
		}
		return e.release(ctx, q)
	})
	if err := printEvicted(e.a, format, e.item); err != nil {
		return output.Told("worker/"+escape.WordCell(e.item.Session)+" is evicted", err)
	}
	if failed != nil {
		return &exit.Error{Code: exit.Partly, Err: fmt.Errorf("the session has ended, but not all of its jobs were opened: %w", failed), Try: "nothing: its queues' workers take them over"}
	}
	return nil
}

// release opens the noted jobs of a queue, and counts what became of them.
func (e *eviction) release(ctx context.Context, q *workqueue.Queue) error {
	var jobs []cli.JobRef
	for ref := range e.owned {
		if ref.Queue == q.Name() {
			jobs = append(jobs, ref)
		}
	}
	slices.SortFunc(jobs, func(x, y cli.JobRef) int { return strings.Compare(x.ID, y.ID) })
	_, err := cli.InOrder(ctx.Done(), len(jobs), cli.AtOnce, func(i int) error { return e.open(ctx, q, jobs[i]) }, func(i int, err error) error {
		switch {
		case err == nil:
			e.item.Released = append(e.item.Released, jobs[i].Text())
		case exit.Code(err) == exit.Conflict, exit.Code(err) == exit.NotFound:
			e.item.Taken++
		default:
			return err
		}
		return nil
	})
	return err
}

// open opens one job of the session. That it is open already is well too: its process, told that its session has ended,
// has given it back.
func (e *eviction) open(ctx context.Context, q *workqueue.Queue, ref cli.JobRef) error {
	ctx, cancel := e.a.Bounded(ctx)
	defer cancel()
	by := e.by
	by.Revision = e.owned[ref]
	_, err := admin.BreakClaim(ctx, q, ref.ID, by)
	if exit.Code(err) != exit.Conflict {
		return err
	}
	if j, gerr := q.Get(ctx, ref.ID); gerr == nil && j.State.Live() && j.Owner == "" {
		return nil
	}
	return err
}

func printEvicted(a *cli.App, format string, item evictItem) error {
	name := "worker/" + escape.WordCell(item.Session)
	line := fmt.Sprintf("%s evicted (%s released", name, output.Count(len(item.Released), "job"))
	if item.Taken > 0 {
		line += fmt.Sprintf(", %d taken over by others or over by then", item.Taken)
	}
	return a.PrintDone(format, item, name, line+")")
}
