package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/inside"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/workqueue"
)

// stage is one queue seen by two: us, whose answers are lost, and others.
type stage struct {
	lossy  *lossy
	cl     *clientv3.Client // the others', without losses
	root   string
	keys   keyspace.QueueKeys
	q      *workqueue.Queue
	s      *coord.Session
	others *workqueue.Queue
	os     *coord.Session
}

func newStage(t *testing.T, c *etcdtest.Cluster) *stage {
	t.Helper()
	l := &lossy{}
	st := &stage{lossy: l, cl: c.Client(t), root: etcdtest.Root(t)}
	mine := c.Client(t, l.option())
	st.keys = keysOf(t, st.root)
	st.q = openAt(t, mine, workqueue.Config{Root: st.root, Backoff: workqueue.Backoff{Initial: time.Millisecond}})
	st.s = session(t, mine, st.root)
	st.others = openAt(t, st.cl, workqueue.Config{Root: st.root})
	st.os = session(t, st.cl, st.root)
	return st
}

// ambiguous is one write whose answer is lost.
type ambiguous struct {
	name string
	// part of the key that the write always puts.
	part func(k keyspace.QueueKeys) string
	// prepare leads to the moment before the write.
	prepare func(t *testing.T, st *stage) *workqueue.Claim
	write   func(ctx context.Context, t *testing.T, st *stage, c *workqueue.Claim) error
	// state and trail of the job in the end.
	state workqueue.State
	trail string
}

func claimed(t *testing.T, st *stage) *workqueue.Claim {
	enqueue(t, st.others, workqueue.Params{ID: "j"})
	return claim(t, st.cl, st.root, st.q, st.s)
}

var ambiguousWrites = []ambiguous{{
	name: "enqueue", part: func(k keyspace.QueueKeys) string { return k.Job("j") },
	prepare: func(*testing.T, *stage) *workqueue.Claim { return nil },
	write: func(ctx context.Context, t *testing.T, st *stage, _ *workqueue.Claim) error {
		_, err := st.q.Enqueue(ctx, workqueue.Params{ID: "j"})
		return err
	},
	state: workqueue.StateReady,
}, {
	name: "claim", part: func(k keyspace.QueueKeys) string { return k.Job("j") },
	prepare: func(t *testing.T, st *stage) *workqueue.Claim {
		enqueue(t, st.others, workqueue.Params{ID: "j"})
		// The mirror must show the job, or there is nothing to claim yet.
		enqueue(t, st.others, workqueue.Params{ID: "first", Priority: 9})
		if err := claim(t, st.cl, st.root, st.q, st.s).Complete(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		return nil
	},
	write: func(ctx context.Context, t *testing.T, st *stage, _ *workqueue.Claim) error {
		c, err := st.q.Claim(ctx, st.s)
		if err == nil && c.Token() != get(t, st.others, "j").Token {
			t.Error("the claim's token is not the job's")
		}
		return err
	},
	state: workqueue.StateClaimed,
}, {
	name: "complete", part: func(k keyspace.QueueKeys) string { return k.Done("j") }, prepare: claimed,
	write: func(ctx context.Context, t *testing.T, st *stage, c *workqueue.Claim) error {
		return c.Complete(ctx, []byte("result"))
	},
	state: workqueue.StateDone, trail: "completed",
}, {
	name: "fail", part: func(k keyspace.QueueKeys) string { return k.Job("j") }, prepare: claimed,
	write: func(ctx context.Context, t *testing.T, st *stage, c *workqueue.Claim) error {
		return c.Fail(ctx, workqueue.RetryAfter(time.Hour, errors.New("boom")))
	},
	state: workqueue.StateRetry, trail: "failed",
}, {
	name: "release", part: func(k keyspace.QueueKeys) string { return k.Job("j") }, prepare: claimed,
	write: func(ctx context.Context, t *testing.T, st *stage, c *workqueue.Claim) error {
		return c.Release(ctx)
	},
	state: workqueue.StateReady, trail: "released",
}, {
	name: "checkpoint", part: func(k keyspace.QueueKeys) string { return k.Progress("j") }, prepare: claimed,
	write: func(ctx context.Context, t *testing.T, st *stage, c *workqueue.Claim) error {
		if err := c.Checkpoint(ctx, []byte(`"one"`)); err != nil {
			return err
		}
		// In order behind it: its compare is the revision of the one before.
		return c.Checkpoint(ctx, []byte(`"two"`))
	},
	state: workqueue.StateClaimed,
}}

// check compares the job with what it must be.
func (a ambiguous) check(t *testing.T, st *stage) {
	t.Helper()
	j := get(t, st.others, "j")
	if j.State != a.state || trail(j) != a.trail || j.LogTotal != len(j.Attempts) {
		t.Errorf("got %s with trail %q of %d, want %s with %q", j.State, trail(j), j.LogTotal, a.state, a.trail)
	}
	if a.name == "checkpoint" && string(j.Checkpoint) != `"two"` {
		t.Errorf("got checkpoint %s", j.Checkpoint)
	}
	held := 0
	if a.state == workqueue.StateClaimed {
		held = 1
	}
	if got := inside.Of(st.s).Book().Len(); got != held {
		t.Errorf("the session holds %d claims, want %d", got, held)
	}
}

// A lost answer, also of the repeat, changes nothing: neither the final state nor
// what the caller is told. This and the next are TestSurvives_13 and _14.
func TestSurvives_13_AnswersLost(t *testing.T) {
	t.Parallel()
	for _, a := range ambiguousWrites {
		for _, losses := range []int{1, 2, 3} {
			t.Run(fmt.Sprintf("%s-%d", a.name, losses), func(t *testing.T) {
				t.Parallel()
				st := newStage(t, etcdtest.Shared(t))
				c := a.prepare(t, st)
				st.lossy.next(losses, a.part(st.keys), nil)
				if err := a.write(bounded(t), t, st, c); err != nil {
					t.Error(err)
				}
				if got := st.lossy.losses(); got != losses {
					t.Fatalf("%d answers were lost, want %d", got, losses)
				}
				a.check(t, st)
			})
		}
	}
}

// A late original arrives after its repeat was answered, and is refused for ever.
func TestSurvives_14_LateOriginal(t *testing.T) {
	t.Parallel()
	for _, a := range ambiguousWrites {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			st := newStage(t, etcdtest.Shared(t))
			c := a.prepare(t, st)
			st.lossy.nextLate(a.part(st.keys))
			if err := a.write(bounded(t), t, st, c); err != nil {
				t.Error(err)
			}
			st.lossy.deliver()
			a.check(t, st)
			// And when the job is gone before the original comes: it stays gone.
			if a.name != "enqueue" {
				return
			}
			if _, err := st.cl.Delete(t.Context(), st.keys.Job("j")); err != nil {
				t.Fatal(err)
			}
			st.lossy.nextLate(a.part(st.keys))
			if err := a.write(bounded(t), t, st, c); err != nil {
				t.Error(err)
			}
			if _, err := st.cl.Delete(t.Context(), st.keys.Job("j")); err != nil {
				t.Fatal(err)
			}
			st.lossy.deliver()
			if _, err := st.others.Get(t.Context(), "j"); !errors.Is(err, workqueue.ErrNotFound) {
				t.Errorf("the late original brought the job back: %v", err)
			}
		})
	}
}

// The job is worked by others, done and gone before the repeat: the answer is still
// what happened.
func TestSurvives_14_GoneBeforeTheRepeat(t *testing.T) {
	t.Parallel()
	for _, a := range ambiguousWrites {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			st := newStage(t, etcdtest.Shared(t))
			c := a.prepare(t, st)
			st.lossy.next(1, a.part(st.keys), func() {
				if _, err := st.others.Cancel(bounded(t), "j", workqueue.By{}); err != nil && !errors.Is(err, workqueue.ErrNotApplicable) {
					t.Error(err)
				}
				if _, err := st.cl.Delete(bounded(t), st.keys.Done("j")); err != nil {
					t.Error(err)
				}
			})
			var err error
			if a.name == "claim" {
				// Made, and taken away since: its context tells.
				var c *workqueue.Claim
				if c, err = st.q.Claim(bounded(t), st.s); err == nil {
					ctx, stop := c.Context(bounded(t))
					defer stop()
					<-ctx.Done()
					if cause := context.Cause(ctx); !errors.Is(cause, workqueue.ErrCancelled) {
						t.Errorf("got cause %v, want cancelled", cause)
					}
				}
			} else {
				err = a.write(bounded(t), t, st, c)
			}
			if a.name == "checkpoint" {
				// The first was kept, the second came too late.
				if !errors.Is(err, coord.ErrFenced) {
					t.Errorf("got %v, want fenced", err)
				}
			} else if err != nil {
				t.Error(err)
			}
			if _, err := st.others.Get(t.Context(), "j"); !errors.Is(err, workqueue.ErrNotFound) {
				t.Errorf("got %v, want not found", err)
			}
		})
	}
}

// With history compacted between loss and repeat, nobody can read what a batch did.
// A closing write is then told by the trail; a claim is unknown, and released.
func TestSurvives_14_CompactedBeforeTheRepeat(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, etcdtest.Config{})
	for _, a := range ambiguousWrites {
		t.Run(a.name, func(t *testing.T) {
			st := newStage(t, c)
			cl := a.prepare(t, st)
			st.lossy.next(1, a.part(st.keys), func() {
				// Two more revisions, so that the batch's own is compacted.
				var rev int64
				for range 2 {
					resp, err := st.cl.Put(bounded(t), st.root+"zz", "")
					if err != nil {
						t.Error(err)
						return
					}
					rev = resp.Header.Revision
				}
				if _, err := st.cl.Compact(bounded(t), rev); err != nil {
					t.Error(err)
				}
			})
			err := a.write(bounded(t), t, st, cl)
			switch a.name {
			case "enqueue":
				if err != nil && !errors.Is(err, coord.ErrUnknown) {
					t.Errorf("got %v, want unknown or nil", err)
				}
			case "claim":
				if !errors.Is(err, coord.ErrUnknown) {
					t.Fatalf("got %v, want unknown", err)
				}
				if got := get(t, st.others, "j"); got.State != workqueue.StateClaimed {
					t.Fatalf("got %s; the claim was applied", got.State)
				}
				// The reconciler of a worker on the same session has nothing to run, and
				// finds it.
				return
			default:
				if err != nil {
					t.Error(err)
				}
			}
			a.check(t, st)
		})
	}
}

// What stays claimed although its worker never learned of it is released by the
// reconciler, counted as nothing, and worked.
func TestReconcilerReleasesStrays(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, etcdtest.Config{})
	l := &lossy{}
	root, cl := etcdtest.Root(t), c.Client(t)
	keys := keysOf(t, root)
	q := openAt(t, c.Client(t, l.option()), workqueue.Config{Root: root})
	l.next(1, keys.Job("j"), func() {
		for range 2 {
			if _, err := cl.Put(bounded(t), root+"zz", ""); err != nil {
				t.Error(err)
			}
		}
		resp, err := cl.Get(bounded(t), root+"zz")
		if err == nil {
			_, err = cl.Compact(bounded(t), resp.Header.Revision)
		}
		if err != nil {
			t.Error(err)
		}
	})
	enqueue(t, openAt(t, cl, workqueue.Config{Root: root}), workqueue.Params{ID: "j"})
	run(t, q, workqueue.WorkerConfig{}, func(context.Context, *workqueue.Claim) ([]byte, error) { return nil, nil })
	if got, want := trail(wait(t, q, "j")), "released completed"; got != want {
		t.Errorf("got trail %q, want %q", got, want)
	}
}

// Two hundred answers are dropped at random by a proxy while jobs are enqueued, fail
// once and complete: every count and every trail is exact.
func TestSurvives_15_RandomDrops(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, etcdtest.Config{Proxies: true})
	cl, root := c.Client(t), etcdtest.Root(t)
	answered := make(chan struct{}, 1)
	mine := c.ProxiedClient(t, grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		err := invoke(ctx, method, req, reply, cc, opts...)
		if err == nil {
			select {
			case answered <- struct{}{}:
			default:
			}
		}
		return err
	}))
	q := openAt(t, mine, workqueue.Config{Root: root, Backoff: workqueue.Backoff{Initial: time.Millisecond, Max: time.Millisecond}})
	starts := &tally{}
	run(t, q, workqueue.WorkerConfig{Concurrency: 8, SessionTTL: 30 * time.Second}, func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
		starts.add(c.Job().ID)
		if err := c.Checkpoint(ctx, []byte("here")); err != nil {
			return nil, err
		}
		if c.Job().Attempt == 1 {
			return nil, errors.New("first")
		}
		return nil, nil
	})
	ctx, stop := context.WithCancel(bounded(t))
	enqueued := make(chan int)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			// Not ctx: a call that is cut short would not know its outcome.
			if _, err := q.Enqueue(bounded(t), workqueue.Params{ID: fmt.Sprintf("j%d", n)}); err != nil {
				t.Error(err)
			}
		}
		enqueued <- n
	}()
	dice := rand.New(rand.NewPCG(15, 15))
	for dropped := 0; dropped < 200 && ctx.Err() == nil; {
		for range 1 + dice.IntN(6) {
			receive(t, answered, "an answer comes through")
		}
		c.Proxy(0).PauseAnswers()
		// There is nothing to hold when the pause met a connection that is being made.
		holdCtx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		if c.Proxy(0).WaitAnswers(holdCtx, 1) == nil {
			c.Proxy(0).Drop()
			dropped++
		}
		cancel()
		c.Proxy(0).Heal()
	}
	stop()
	n := <-enqueued
	t.Logf("%d jobs", n)
	others := openAt(t, cl, workqueue.Config{Root: root})
	if err := others.WaitEmpty(bounded(t)); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for j, err := range others.List(bounded(t), workqueue.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		seen++
		if j.State != workqueue.StateDone || trail(j) != "failed completed" || j.LogTotal != 2 || j.Attempt != 2 || j.Failures != 1 || j.Losses != 0 || starts.get(j.ID) != 2 {
			t.Errorf("%s: %s after %q of %d, attempt %d, %d failures, %d losses, %d starts",
				j.ID, j.State, trail(j), j.LogTotal, j.Attempt, j.Failures, j.Losses, starts.get(j.ID))
		}
	}
	if seen != n {
		t.Errorf("%d jobs were kept, %d enqueued", seen, n)
	}
}
