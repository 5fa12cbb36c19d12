package workqueue_test

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/workqueue"
)

// taking is a way to take a running job "j" from its worker, and what its handler is to
// hear: that it was cancelled only when this very claim was.
type taking struct {
	name  string
	act   func(ctx context.Context, q, other *workqueue.Queue) error
	cause error
	// traceless: what etcd holds afterwards does not tell.
	traceless bool
}

var takings = []taking{
	{"cancel", func(ctx context.Context, q, _ *workqueue.Queue) error { return cancelJob(ctx, q) }, workqueue.ErrCancelled, false},
	{"cancel and requeue", func(ctx context.Context, q, _ *workqueue.Queue) error {
		return errors.Join(cancelJob(ctx, q), then(q.Requeue(ctx, "j", tester)))
	}, workqueue.ErrCancelled, false},
	{"cancel and enqueue again", func(ctx context.Context, q, _ *workqueue.Queue) error {
		return errors.Join(cancelJob(ctx, q), then(q.Enqueue(ctx, workqueue.Params{ID: "j", Kind: "none"})))
	}, workqueue.ErrCancelled, false},
	{"cancel and delete", func(ctx context.Context, q, _ *workqueue.Queue) error {
		return errors.Join(cancelJob(ctx, q), then(admin.Delete(ctx, q, "j", tester)))
	}, workqueue.ErrCancelled, true},
	{"break", func(ctx context.Context, q, _ *workqueue.Queue) error {
		return then(admin.BreakClaim(ctx, q, "j", tester))
	}, coord.ErrFenced, false},
	{"break and cancel", func(ctx context.Context, q, _ *workqueue.Queue) error {
		return errors.Join(then(admin.BreakClaim(ctx, q, "j", tester)), cancelJob(ctx, q))
	}, coord.ErrFenced, false},
	{"edit", func(ctx context.Context, q, _ *workqueue.Queue) error {
		return then(admin.Edit(ctx, q, "j", func(p *workqueue.Params) error { p.Kind = "none"; return nil }, breaking()))
	}, coord.ErrFenced, false},
	{"delete", func(ctx context.Context, q, _ *workqueue.Queue) error {
		return then(admin.Delete(ctx, q, "j", breaking()))
	}, coord.ErrFenced, false},
	{"delete and enqueue again", func(ctx context.Context, q, _ *workqueue.Queue) error {
		return errors.Join(then(admin.Delete(ctx, q, "j", breaking())), then(q.Enqueue(ctx, workqueue.Params{ID: "j", Kind: "none"})), cancelJob(ctx, q))
	}, coord.ErrFenced, false},
	{"move", func(ctx context.Context, q, _ *workqueue.Queue) error {
		return then(admin.Move(ctx, q, "j", "other", breaking()))
	}, coord.ErrFenced, false},
	{"move and cancel there", func(ctx context.Context, q, other *workqueue.Queue) error {
		return errors.Join(then(admin.Move(ctx, q, "j", "other", breaking())), cancelJob(ctx, other))
	}, coord.ErrFenced, false},
}

func then(_ *workqueue.Job, err error) error { return err }

func cancelJob(ctx context.Context, q *workqueue.Queue) error {
	return then(q.Cancel(ctx, "j", tester))
}

// takingRig is a worker behind a proxy that runs job "j".
type takingRig struct {
	c        *etcdtest.Cluster
	root     string
	q, other *workqueue.Queue
	causes   chan error
}

func newTakingRig(t *testing.T, c *etcdtest.Cluster, mode string) *takingRig {
	t.Helper()
	r := &takingRig{c: c, root: etcdtest.Root(t), causes: make(chan error, 1)}
	cl := c.Client(t)
	r.q = openAt(t, cl, workqueue.Config{Root: r.root})
	r.other = openAt(t, cl, workqueue.Config{Root: r.root, Queue: "other"})
	setMode(t, r.q, mode)
	if mode == "dispatch" {
		dispatch(t, cl, r.root, workqueue.DispatcherConfig{})
	}
	started := make(chan struct{}, 1)
	mux := workqueue.NewMux()
	mux.Register("", workqueue.HandlerFunc(func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
		started <- struct{}{}
		<-ctx.Done()
		r.causes <- context.Cause(ctx)
		return nil, ctx.Err()
	}))
	runHandler(t, openAt(t, c.ProxiedClient(t), workqueue.Config{Root: r.root}), workqueue.WorkerConfig{Concurrency: 1, SessionTTL: time.Minute}, mux)
	enqueue(t, r.q, workqueue.Params{ID: "j"})
	receive(t, started, "the job runs")
	return r
}

// compactAll leaves of the past nothing that can be read.
func compactAll(t testing.TB, cl *clientv3.Client, root string) {
	t.Helper()
	resp, err := cl.Put(bounded(t), root+"zz", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cl.Compact(bounded(t), resp.Header.Revision); err != nil {
		t.Fatal(err)
	}
}

// Whatever takes a running job away, in either mode, and whether its worker sees it at
// once, late, or only what is left after a compaction, the handler is told the same, and
// it is true.
func TestATakenJobTellsWhy(t *testing.T) {
	for _, mode := range []string{"claim", "dispatch"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			c := etcdtest.New(t, etcdtest.Config{Proxies: true})
			for _, how := range []string{"at once", "late", "compacted"} {
				for _, tc := range takings {
					t.Run(how+"/"+tc.name, func(t *testing.T) { tc.run(t, newTakingRig(t, c, mode), how) })
				}
			}
		})
	}
}

func (tc taking) run(t *testing.T, r *takingRig, how string) {
	defer r.c.Proxy(0).Heal()
	want := tc.cause
	switch how {
	case "late":
		r.c.Proxy(0).Pause()
	case "compacted":
		r.c.Proxy(0).Refuse()
		if tc.traceless {
			want = coord.ErrFenced // nothing is left that could tell
		}
	}
	if err := tc.act(bounded(t), r.q, r.other); err != nil {
		t.Fatal(err)
	}
	if how == "compacted" {
		compactAll(t, r.c.Client(t), r.root)
	}
	r.c.Proxy(0).Heal()
	if got := receive(t, r.causes, "the handler hears of it"); !errors.Is(got, want) {
		t.Errorf("got cause %v, want %v", got, want)
	}
}
