package workqueue_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/inside"
	"github.com/leasekit/leasekit/workqueue"
)

// A job whose payload is gone is buried by the call that claims it. Where that is denied
// its caller has an error and no claim, and the job is buried behind it.
func TestAJobWithoutItsPayloadIsBuriedBehindItsCaller(t *testing.T) {
	p := newTroubled(t)
	enqueue(t, p.seen, workqueue.Params{ID: "x", Payload: bytes.Repeat([]byte("x"), 128<<10)})
	if _, err := p.cl.Delete(bounded(t), keysOf(t, p.root).Payload("x")); err != nil {
		t.Fatal(err)
	}
	p.plan.Set(func(c etcdtest.Call) etcdtest.Fate {
		if c.Puts("/dead/") {
			return etcdtest.Fate{Refuse: rpctypes.ErrGRPCPermissionDenied}
		}
		return etcdtest.Fate{}
	})
	s := session(t, p.own, p.root)
	var err error
	for err = workqueue.ErrEmpty; errors.Is(err, workqueue.ErrEmpty); {
		_, err = p.q.Claim(bounded(t), s)
	}
	if !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("claim: got %v, want the refusal", err)
	}
	p.plan.Set(nil)
	p.becomes("x", workqueue.StateDead)
	receive(t, inside.Of(s).Book().Drained(), "the book has no claim")
}

// A worker and its session end while nothing is answered, one result on its way: it is
// handed in once the link is back, as long as the queue is open, although the session's
// lanes could not be ended.
func TestAResultOutlivesItsSession(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, etcdtest.Config{Proxies: true})
	cl, root := c.Client(t), etcdtest.Root(t)
	seen := openAt(t, cl, workqueue.Config{Root: root})
	q := openAt(t, c.ProxiedClient(t), workqueue.Config{Root: root})
	returned := make(chan struct{})
	w := run(t, q, workqueue.WorkerConfig{SessionTTL: 6 * time.Second, DrainTimeout: -1, Grace: time.Second},
		func(context.Context, *workqueue.Claim) ([]byte, error) {
			defer close(returned)
			c.Proxy(0).Pause()
			return []byte("good"), nil
		})
	enqueue(t, seen, workqueue.Params{ID: "x"})
	receive(t, returned, "the handler returns")
	if err := w.stop(t); err != nil {
		t.Error(err)
	}
	c.Proxy(0).Heal()
	if j := wait(t, seen, "x"); string(j.Result) != "good" || j.Attempt != 1 {
		t.Errorf("got %q after %d attempts", j.Result, j.Attempt)
	}
}

// A result whose outcome cannot be read is handed in again from the first moment on: the
// job is not given back meanwhile, to be worked once more.
func TestAResultInDoubtIsNotGivenBack(t *testing.T) {
	p := newTroubled(t)
	enqueue(t, p.seen, workqueue.Params{ID: "x"})
	runs, settled := &tally{}, make(chan workqueue.Settlement, 9)
	hooks := workqueue.Hooks{Settled: func(_ *workqueue.Job, s workqueue.Settlement) { settled <- s }}
	// The worker comes no further than to the log before the book has ended the claim.
	core, _ := observer.New(zap.WarnLevel)
	q := openAt(t, p.own, workqueue.Config{Root: p.root, Logger: zap.New(core, zap.Hooks(func(e zapcore.Entry) error {
		if e.Message == "close claim" {
			until(t, p.cl, p.root, "the claim is over", func() bool { return get(t, p.seen, "x").State != workqueue.StateClaimed })
		}
		return nil
	}))})
	run(t, q, workqueue.WorkerConfig{SessionKeeper: runMember(t, p.own, p.root), Hooks: hooks}, func(context.Context, *workqueue.Claim) ([]byte, error) {
		if runs.add("x") == 1 {
			p.plan.Set(lostThenDenied())
		}
		return []byte("good"), nil
	})
	if s := receive(t, settled, "the worker hears of it"); !errors.Is(s.Err, coord.ErrUnknown) {
		t.Errorf("settled with %v, want ErrUnknown", s.Err)
	}
	if j := p.becomes("x", workqueue.StateDone); trail(j) != "completed" || runs.get("x") != 1 {
		t.Errorf("trail %q, %d runs", trail(j), runs.get("x"))
	}
}

// lostThenDenied loses the first write, and denies everything from then on, until it has
// denied to read what became of the job.
func lostThenDenied() func(etcdtest.Call) etcdtest.Fate {
	lost, over := false, false
	return func(c etcdtest.Call) etcdtest.Fate {
		switch writes := c.Puts("/lanes/"); {
		case over || c.Method != "Txn" && c.Method != "Range":
			return etcdtest.Fate{}
		case writes && !lost:
			lost = true
			return etcdtest.Fate{Refuse: rpctypes.ErrGRPCTimeoutDueToConnectionLost}
		case !lost:
			return etcdtest.Fate{}
		case !writes:
			over = strings.Contains(fmt.Sprint(c.Request), "/done/")
		}
		return etcdtest.Fate{Refuse: rpctypes.ErrGRPCPermissionDenied}
	}
}

// A worker that is refused, since another process serves the queue on the session, leaves
// nothing to be ended.
func TestARefusedWorkerHasNothingToLeave(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := openAt(t, cl, workqueue.Config{Root: root})
	first := runMember(t, cl, root)
	s, err := first.Session(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	run(t, q, workqueue.WorkerConfig{SessionKeeper: first}, counting(&tally{}))
	enqueue(t, q, workqueue.Params{ID: "a"})
	wait(t, q, "a")
	resumed := coord.NewSessionKeeper(cl, coord.SessionConfig{Root: root, Resume: s.ID()})
	ctx, cancel := context.WithCancel(bounded(t))
	ended := make(chan error, 1)
	go func() { ended <- resumed.Run(ctx) }()
	second := run(t, openAt(t, cl, workqueue.Config{Root: root}), workqueue.WorkerConfig{SessionKeeper: resumed}, counting(&tally{}))
	<-second.done
	if !errors.Is(second.err, coord.ErrInvalid) {
		t.Errorf("got %v, want that it is refused", second.err)
	}
	again, err := resumed.Session(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	receive(t, inside.Of(again).Book().Drained(), "the book has no claim")
	if err := again.Healthz(); err != nil {
		t.Errorf("healthz: %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A worker that may not register claims for itself all the same. It leaves nothing behind:
// the next one of its session works, and the session is well.
func TestAWorkerThatCouldNotRegister(t *testing.T) {
	p := newTroubled(t)
	p.plan.Set(func(c etcdtest.Call) etcdtest.Fate {
		if c.Writes("/workers/") {
			return etcdtest.Fate{Refuse: rpctypes.ErrGRPCPermissionDenied}
		}
		return etcdtest.Fate{}
	})
	m := runMember(t, p.own, p.root)
	for _, id := range []string{"first", "second"} {
		enqueue(t, p.seen, workqueue.Params{ID: id})
		w := run(t, p.q, workqueue.WorkerConfig{SessionKeeper: m}, counting(&tally{}))
		wait(t, p.seen, id)
		if err := w.stop(t); err != nil {
			t.Error(err)
		}
	}
	s, err := m.Session(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Healthz(); err != nil || inside.Of(s).Book().Len() != 0 {
		t.Errorf("healthz: %v; %d in the book", err, inside.Of(s).Book().Len())
	}
}
