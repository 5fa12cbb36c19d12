package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/inside"
	"github.com/leasekit/leasekit/workqueue"
)

// troubled is a queue and a session on a client whose calls meet a plan, and the same
// queue as others see it.
type troubled struct {
	t       *testing.T
	plan    *etcdtest.Plan
	cl      *clientv3.Client // of the others
	own     *clientv3.Client
	root    string
	q, seen *workqueue.Queue
}

func newTroubled(t *testing.T) *troubled {
	t.Helper()
	t.Parallel()
	return troubledOn(t, etcdtest.Shared(t))
}

func troubledOn(t *testing.T, c *etcdtest.Cluster) *troubled {
	t.Helper()
	p := &troubled{t: t, plan: &etcdtest.Plan{}, cl: c.Client(t), root: etcdtest.Root(t)}
	p.own = c.Client(t, p.plan.DialOptions()...)
	p.q, p.seen = openAt(t, p.own, workqueue.Config{Root: p.root}), openAt(t, p.cl, workqueue.Config{Root: p.root})
	return p
}

// becomes blocks until the job is in a state.
func (p *troubled) becomes(id string, want workqueue.State) *workqueue.Job {
	p.t.Helper()
	var j *workqueue.Job
	until(p.t, p.cl, p.root, id+" is "+string(want), func() bool {
		j = get(p.t, p.seen, id)
		return j.State == want
	})
	return j
}

// nth makes a plan of the n-th call (from 1) that which matches; the others pass.
func nth(which func(etcdtest.Call) bool, fates ...etcdtest.Fate) func(etcdtest.Call) etcdtest.Fate {
	n := 0
	return func(c etcdtest.Call) etcdtest.Fate {
		if !which(c) {
			return etcdtest.Fate{}
		}
		if n++; n > len(fates) {
			return etcdtest.Fate{}
		}
		return fates[n-1]
	}
}

func writesJob(c etcdtest.Call) bool { return c.Writes("/jobs/") }

// jammed are the closing calls that a claim's holder may make with no time to wait for
// their outcome, each of which etcd refuses.
var jammed = map[string]func(ctx context.Context, q *workqueue.Queue, c *workqueue.Claim) error{
	"a completion that joins a job which exists": func(ctx context.Context, q *workqueue.Queue, c *workqueue.Claim) error {
		_, _, ops, err := q.EnqueueOps(workqueue.Params{ID: "exists"})
		if err != nil {
			return err
		}
		return c.CompleteWith(ctx, nil, ops...)
	},
	"a completion that joins a lease which is gone": func(ctx context.Context, _ *workqueue.Queue, c *workqueue.Claim) error {
		return c.CompleteWith(ctx, nil, clientv3.OpPut("/elsewhere", "", clientv3.WithLease(77)))
	},
	"a completion that writes a key twice": func(ctx context.Context, _ *workqueue.Queue, c *workqueue.Claim) error {
		return c.CompleteWith(ctx, nil, clientv3.OpPut("/elsewhere", "1"), clientv3.OpPut("/elsewhere", "2"))
	},
}

// A closing call whose caller has left is refused behind it: the claim is open again,
// for the next call of the one who holds it.
func TestAClosingCallThatWasRefusedLeavesTheClaimOpen(t *testing.T) {
	for name, call := range jammed {
		for second, close := range map[string]func(ctx context.Context, c *workqueue.Claim) error{
			"release": func(ctx context.Context, c *workqueue.Claim) error { return c.Release(ctx) },
			"complete": func(ctx context.Context, c *workqueue.Claim) error {
				return c.Complete(ctx, []byte("good"))
			},
		} {
			t.Run(name+", then "+second, func(t *testing.T) {
				p := newTroubled(t)
				enqueue(t, p.seen, workqueue.Params{ID: "exists", RunAt: time.Now().Add(time.Hour)}, workqueue.Params{ID: "x"})
				c := claim(t, p.cl, p.root, p.q, session(t, p.own, p.root))
				answer := make(chan struct{})
				p.plan.Set(nth(writesJob, etcdtest.Fate{Hold: answer}))
				ctx, cancel := context.WithTimeout(bounded(t), 50*time.Millisecond)
				defer cancel()
				if err := call(ctx, p.q, c); !errors.Is(err, coord.ErrUnknown) {
					t.Fatalf("the caller that leaves: got %v, want ErrUnknown", err)
				}
				close_ := make(chan error, 1)
				go func() { close_ <- close(bounded(t), c) }()
				answer <- struct{}{}
				if err := receive(t, close_, "the next call is answered"); err != nil {
					t.Errorf("%s: got %v", second, err)
				}
				if second == "release" {
					p.becomes("x", workqueue.StateReady)
				} else {
					p.becomes("x", workqueue.StateDone)
				}
				if err := c.Release(bounded(t)); !errors.Is(err, workqueue.ErrSettled) {
					t.Errorf("once it is closed: got %v, want ErrSettled", err)
				}
			})
		}
	}
}

// The same by a handler that returns meanwhile: the refusal would come again, so it
// counts as a failure, and the job does not stay with a worker that does not run it.
func TestARefusedClosingCallOfAHandlerIsAFailure(t *testing.T) {
	for name, call := range jammed {
		for _, returns := range []error{nil, errors.New("what the handler says")} {
			t.Run(fmt.Sprintf("%s, then %v", name, returns), func(t *testing.T) {
				p := newTroubled(t)
				enqueue(t, p.seen, workqueue.Params{ID: "exists", RunAt: time.Now().Add(time.Hour)}, workqueue.Params{ID: "x", MaxAttempts: 1})
				answer, left := make(chan struct{}), make(chan error, 1)
				run(t, p.q, workqueue.WorkerConfig{}, func(_ context.Context, c *workqueue.Claim) ([]byte, error) {
					p.plan.Set(nth(writesJob, etcdtest.Fate{Hold: answer}))
					ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
					defer cancel()
					left <- call(ctx, p.q, c)
					return nil, returns
				})
				if err := receive(t, left, "the handler leaves"); !errors.Is(err, coord.ErrUnknown) {
					t.Errorf("the handler that leaves: got %v, want ErrUnknown", err)
				}
				answer <- struct{}{}
				if j := p.becomes("x", workqueue.StateDead); j.Failures != 1 || j.Losses != 0 {
					t.Errorf("%d failures, %d losses", j.Failures, j.Losses)
				}
			})
		}
	}
}

// A result that etcd has no right or no room for is handed in later, and never lost.
func TestAResultIsHandedInOnceItMayBe(t *testing.T) {
	for _, refusal := range []error{rpctypes.ErrGRPCPermissionDenied, rpctypes.ErrGRPCNoSpace} {
		t.Run(refusal.Error(), func(t *testing.T) {
			p := newTroubled(t)
			enqueue(t, p.seen, workqueue.Params{ID: "x"})
			settled := make(chan workqueue.Settlement, 1)
			w := run(t, p.q, workqueue.WorkerConfig{
				Hooks: workqueue.Hooks{Settled: func(_ *workqueue.Job, s workqueue.Settlement) { settled <- s }},
			}, func(context.Context, *workqueue.Claim) ([]byte, error) {
				p.plan.Set(func(c etcdtest.Call) etcdtest.Fate {
					if c.Puts("/done/") {
						return etcdtest.Fate{Refuse: refusal}
					}
					return etcdtest.Fate{}
				})
				return []byte("good"), nil
			})
			if s := receive(t, settled, "the worker hears of it"); !errors.Is(s.Err, rpctypes.Error(refusal)) {
				t.Errorf("settled with %v, want the refusal", s.Err)
			}
			if j := get(t, p.seen, "x"); j.State != workqueue.StateClaimed {
				t.Errorf("meanwhile the job is %s", j.State)
			}
			p.plan.Set(nil)
			if j := p.becomes("x", workqueue.StateDone); string(j.Result) != "good" || j.Attempt != 1 {
				t.Errorf("got %q after %d attempts", j.Result, j.Attempt)
			}
			if err := w.stop(t); err != nil {
				t.Error(err)
			}
		})
	}
}

// A claim that was applied, whose answer was lost beyond finding out, is given back by
// the session, with or without a worker, whatever made the answer unreadable.
func TestAClaimWithoutAnAnswerIsGivenBack(t *testing.T) {
	compact := func(p *troubled) {
		resp, err := p.cl.Put(p.t.Context(), p.root+"tick", "")
		if err == nil {
			_, err = p.cl.Compact(p.t.Context(), resp.Header.Revision)
		}
		if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
			p.t.Error(err)
		}
	}
	dropLanes := func(p *troubled) {
		if _, err := p.cl.Delete(p.t.Context(), p.root+"lanes/", clientv3.WithPrefix()); err != nil {
			p.t.Error(err)
		}
	}
	for name, meanwhile := range map[string]func(*troubled){"history is compacted": compact, "the lane is gone": dropLanes} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := troubledOn(t, etcdtest.New(t, etcdtest.Config{})) // others need their history
			enqueue(t, p.seen, workqueue.Params{ID: "x"})
			s := session(t, p.own, p.root)
			if _, err := p.q.Claim(bounded(t), s); err != nil {
				t.Fatal(err)
			}
			enqueue(t, p.seen, workqueue.Params{ID: "y"})
			var err error
			for err = workqueue.ErrEmpty; errors.Is(err, workqueue.ErrEmpty); {
				p.plan.Set(nth(writesJob, etcdtest.Fate{Lose: rpctypes.ErrGRPCTimeoutDueToConnectionLost, Then: func() { meanwhile(p) }}))
				_, err = p.q.Claim(bounded(t), s)
			}
			if !errors.Is(err, coord.ErrUnknown) {
				t.Fatalf("claim: got %v, want ErrUnknown", err)
			}
			if j := p.becomes("y", workqueue.StateReady); trail(j) != "released" || j.Losses != 0 {
				t.Errorf("trail %q, %d losses", trail(j), j.Losses)
			}
			until(t, p.cl, p.root, "the claim that has a holder is alone in the book", func() bool { return inside.Of(s).Book().Len() == 1 })
			if j := get(t, p.seen, "x"); j.State != workqueue.StateClaimed {
				t.Errorf("the claim that has a holder: %s", j.State)
			}
		})
	}
}

// The same for a caller that has left before the answer.
func TestAClaimWhoseCallerHasLeftIsGivenBack(t *testing.T) {
	p := newTroubled(t)
	enqueue(t, p.seen, workqueue.Params{ID: "x"})
	s := session(t, p.own, p.root)
	claimed := make(chan struct{})
	p.plan.Set(nth(writesJob, etcdtest.Fate{Lose: rpctypes.ErrGRPCTimeoutDueToConnectionLost, Then: func() { close(claimed) }}))
	ctx, cancel := context.WithCancel(bounded(t))
	go func() {
		<-claimed
		cancel()
	}()
	var err error
	for err = workqueue.ErrEmpty; errors.Is(err, workqueue.ErrEmpty); {
		_, err = p.q.Claim(ctx, s)
	}
	if err == nil {
		t.Skip("the repeat was faster than the caller") // it may be: then there is nothing to see
	}
	p.becomes("x", workqueue.StateReady)
	receive(t, inside.Of(s).Book().Drained(), "the book has no claim") // it hears of its own write a moment after we do
}

// A completion is applied, its answer lost, and the right to write is taken away before
// the repeat: its caller hears that it was applied, or that nobody knows, and never that
// nothing was written. So for every way out.
func TestADenialAfterALostAnswerSaysNothing(t *testing.T) {
	for name, close := range map[string]func(ctx context.Context, c *workqueue.Claim) error{
		"complete": func(ctx context.Context, c *workqueue.Claim) error { return c.Complete(ctx, []byte("good")) },
		"fail": func(ctx context.Context, c *workqueue.Claim) error {
			return c.Fail(ctx, workqueue.Permanent(errors.New("x")))
		},
		"release":  func(ctx context.Context, c *workqueue.Claim) error { return c.Release(ctx) },
		"progress": func(ctx context.Context, c *workqueue.Claim) error { return c.Progress(ctx, []byte("1")) },
	} {
		for _, refusal := range []error{rpctypes.ErrGRPCPermissionDenied, rpctypes.ErrGRPCNoSpace, rpctypes.ErrGRPCRequestTooLarge} {
			for _, reads := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, %v, reads %v", name, refusal, reads), func(t *testing.T) {
					p := newTroubled(t)
					enqueue(t, p.seen, workqueue.Params{ID: "x"})
					c := claim(t, p.cl, p.root, p.q, session(t, p.own, p.root))
					var lost atomic.Bool
					p.plan.Set(func(call etcdtest.Call) etcdtest.Fate {
						writes := call.Puts("/lanes/")
						switch {
						case writes && lost.CompareAndSwap(false, true):
							return etcdtest.Fate{Lose: rpctypes.ErrGRPCTimeoutDueToConnectionLost}
						case writes, !reads && lost.Load() && (call.Method == "Range" || call.Method == "Txn"):
							return etcdtest.Fate{Refuse: refusal}
						}
						return etcdtest.Fate{}
					})
					ctx, cancel := context.WithTimeout(bounded(t), 5*time.Second)
					defer cancel()
					err := close(ctx, c)
					p.plan.Set(nil)
					if reads && err != nil {
						t.Errorf("it can be read, and its caller hears %v", err)
					}
					if !reads && !errors.Is(err, coord.ErrUnknown) {
						t.Errorf("nothing can be read, and its caller hears %v, want ErrUnknown", err)
					}
				})
			}
		}
	}
}

// Etcd is full: what only deletes gets through, what puts says so at once, and the queue
// closes.
func TestAFullEtcd(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, etcdtest.Config{QuotaBackendBytes: 4 << 20})
	cl, root := c.Client(t), etcdtest.Root(t)
	q, err := workqueue.Open(bounded(t), cl, workqueue.Config{Queue: "q", Root: root})
	if err != nil {
		t.Fatal(err)
	}
	enqueue(t, q, numbered(4, workqueue.Params{})...)
	s, err := coord.OpenSession(bounded(t), cl, coord.SessionConfig{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	held := claim(t, cl, root, q, s)
	fill := strings.Repeat("x", 200<<10)
	for n := 0; err == nil; n++ {
		_, err = cl.Put(bounded(t), fmt.Sprintf("/fill/%d", n), fill)
	}
	fresh, err := workqueue.Open(bounded(t), cl, workqueue.Config{Queue: "q", Root: root})
	if err != nil {
		t.Fatal(err)
	}
	by := workqueue.By{Actor: "test"}
	left := []string{"j0", "j1", "j2", "j3"}
	for i, id := range left {
		if id == held.Job().ID {
			left = append(left[:i:i], left[i+1:]...)
			break
		}
	}
	for i, q := range []*workqueue.Queue{q, fresh} {
		if _, err := admin.Delete(bounded(t), q, left[i], by); err != nil {
			t.Errorf("delete: %v", err)
		}
	}
	for what, err := range map[string]error{
		"cancel":   func() error { _, err := q.Cancel(bounded(t), left[2], by); return err }(),
		"enqueue":  func() error { _, err := q.Enqueue(bounded(t), workqueue.Params{}); return err }(),
		"complete": held.Complete(bounded(t), nil),
		"release":  held.Release(bounded(t)),
		"fresh":    func() error { _, err := fresh.Cancel(bounded(t), left[2], by); return err }(),
	} {
		full := errors.Is(err, rpctypes.ErrNoSpace) || errors.Is(err, workqueue.ErrBacklogFull)
		if !full || errors.Is(err, coord.ErrUnknown) || !strings.Contains(err.Error(), "compact") {
			t.Errorf("%s: got %v, want that etcd is full, and how to make room", what, err)
		}
	}
	for _, q := range []*workqueue.Queue{q, fresh} {
		began := time.Now()
		if err := q.Close(); err != nil || time.Since(began) > 8*time.Second {
			t.Errorf("close: %v after %v", err, time.Since(began))
		}
	}
	// The claim cannot be given back; the lease ends it.
	if err := s.Close(bounded(t)); !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Errorf("close session: got %v, want that etcd is full", err)
	}
	if resp, err := cl.Get(bounded(t), root+"sessions/"+s.ID()); err != nil || resp.Count != 0 {
		t.Errorf("the session's key is there: %v %v", resp, err)
	}
}
