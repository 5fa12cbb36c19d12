package workqueue_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/workqueue"
)

// handIn is a member and a queue whose worker may not write some keys for a while.
type handIn struct {
	plan    etcdtest.Plan
	member  *coord.SessionKeeper
	q       *workqueue.Queue
	settled chan workqueue.Settlement
}

func newHandIn(t *testing.T, root string) *handIn {
	t.Helper()
	h := &handIn{settled: make(chan workqueue.Settlement, 9)}
	cl := etcdtest.Shared(t).Client(t, h.plan.DialOptions()...)
	h.member = coord.NewSessionKeeper(cl, coord.SessionConfig{Root: root, TTL: 20 * time.Second})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.member.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	h.q = openAt(t, cl, workqueue.Config{Root: root, Backoff: workqueue.Backoff{Initial: time.Hour, Max: time.Hour}})
	return h
}

func (h *handIn) config() workqueue.WorkerConfig {
	return workqueue.WorkerConfig{Concurrency: 2, SessionKeeper: h.member, Hooks: workqueue.Hooks{
		Settled: func(_ *workqueue.Job, s workqueue.Settlement) { h.settled <- s },
	}}
}

// deny refuses what writes keys with part in them.
func (h *handIn) deny(part string) {
	h.plan.Set(func(c etcdtest.Call) etcdtest.Fate {
		if c.Method == "Txn" && c.Writes(part) {
			return etcdtest.Fate{Refuse: rpctypes.ErrGRPCPermissionDenied}
		}
		return etcdtest.Fate{}
	})
}

// A result that may not be written yet is handed in when it may, by the session's book;
// the next worker of the session does not run the job a second time under the same
// token. What the hook says is that the outcome is not known yet.
func TestAnUnwrittenResultIsNotWorkedAgainByTheNextWorker(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"claim", "dispatch"} {
		t.Run(mode, func(t *testing.T) {
			cl, root := shared(t)
			q := openAt(t, cl, workqueue.Config{Root: root})
			if setMode(t, q, mode); mode == "dispatch" {
				dispatch(t, cl, root, workqueue.DispatcherConfig{})
			}
			h, started := newHandIn(t, root), make(chan string, 9)
			handler := func(by string) workqueue.HandlerFunc {
				return func(_ context.Context, c *workqueue.Claim) ([]byte, error) {
					started <- c.Job().ID + " " + by
					return []byte(`"` + by + `"`), nil
				}
			}
			h.deny("/done/")
			first := run(t, h.q, h.config(), handler("first"))
			enqueue(t, q, workqueue.Params{ID: "a"})
			if s := receive(t, h.settled, "the attempt is settled"); !errors.Is(s.Err, coord.ErrUnknown) {
				t.Errorf("the hook says: %v", s.Err)
			}
			if err := first.stop(t); err != nil {
				t.Error(err)
			}
			second := run(t, h.q, h.config(), handler("second"))
			enqueue(t, q, workqueue.Params{ID: "b"})
			for _, want := range []string{"a first", "b second"} {
				if got := receive(t, started, "a handler runs"); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			}
			h.plan.Set(nil)
			if j := wait(t, q, "a"); string(j.Result) != `"first"` {
				t.Errorf("the result of a is %s", j.Result)
			}
			wait(t, q, "b")
			if err := second.stop(t); err != nil {
				t.Error(err)
			}
			if len(started) > 0 {
				t.Errorf("it was worked once more: %s", <-started)
			}
		})
	}
}

// A handler that goes on after its claim was given up hears of it in the end, however
// often that had to be tried.
func TestALateAnswerIsSettledAlthoughGivingUpWasDenied(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := openAt(t, cl, workqueue.Config{Root: root})
	h, goOn := newHandIn(t, root), make(chan struct{})
	cfg, abandoned := h.config(), make(chan string, 1)
	cfg.Timeout, cfg.Grace = 20*time.Millisecond, 20*time.Millisecond
	cfg.Hooks.Abandoned = func(j *workqueue.Job, _ error) { abandoned <- j.ID }
	run(t, h.q, cfg, func(_ context.Context, c *workqueue.Claim) ([]byte, error) {
		h.deny("/jobs/")
		<-goOn
		return nil, nil
	})
	enqueue(t, q, workqueue.Params{ID: "deaf"})
	receive(t, abandoned, "the handler is given up")
	h.plan.Set(nil)
	until(t, cl, root, "its claim is too", func() bool { return get(t, q, "deaf").Failures == 1 })
	close(goOn)
	if s := receive(t, h.settled, "its answer is settled"); !s.Refused || s.Err == nil {
		t.Errorf("a late answer: %+v", s)
	}
}
