package workqueue_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/election"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/workqueue"
)

// soon turns a call that hangs into an error of the test.
func soon(t *testing.T, what string, call func() error) error {
	t.Helper()
	got := make(chan error, 1)
	go func() { got <- call() }()
	select {
	case err := <-got:
		return err
	case <-time.After(20 * time.Second): // a hang, not a measurement
		t.Errorf("%s: it hangs", what)
		return nil
	}
}

// firstOf is the first error of a sequence.
func firstOf[T any](all iter.Seq2[T, error]) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// Once its client is closed, every call ends with an error by itself: those that were
// under way, and those that come.
func TestNothingHangsOnceTheClientIsClosed(t *testing.T) {
	t.Parallel()
	root := etcdtest.Root(t)
	client, err := clientv3.New(clientv3.Config{Endpoints: etcdtest.Shared(t).Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	q, err := workqueue.Open(ctx, client, workqueue.Config{Queue: "q", Root: root})
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := workqueue.Open(ctx, client, workqueue.Config{Queue: "fresh", Root: root}) // nothing of it runs yet
	if err != nil {
		t.Fatal(err)
	}
	queues := workqueue.Queues{Client: client, Root: root}
	s, err := coord.OpenSession(ctx, client, coord.SessionConfig{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	enqueue(t, q, workqueue.Params{ID: "claimed", Priority: 9}, workqueue.Params{ID: "open", Kind: "unknown"})
	claimed, err := q.Claim(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	hold, err := coord.NewLock(s, "l").Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	elector, err := election.New(client, election.Config{Name: "e", Root: root})
	if err != nil {
		t.Fatal(err)
	}
	dispatcher, err := workqueue.NewDispatcher(q, workqueue.DispatcherConfig{})
	if err != nil {
		t.Fatal(err)
	}
	mux := knowing("k")
	worker := func(q *workqueue.Queue) func() error {
		return func() error {
			w, err := workqueue.NewWorker(q, mux, workqueue.WorkerConfig{DrainTimeout: -1})
			if err != nil {
				return err
			}
			return w.Run(ctx)
		}
	}
	leading := make(chan struct{})
	member := coord.NewSessionKeeper(client, coord.SessionConfig{Root: root})
	underWay := map[string]func() error{
		"wait":       func() error { _, err := q.Wait(ctx, "open"); return err },
		"wait empty": func() error { return q.WaitEmpty(ctx) },
		"worker":     worker(q),
		"dispatcher": func() error { return dispatcher.Run(ctx) },
		"member":     func() error { return member.Run(ctx) },
		"lock":       func() error { _, err := coord.NewLock(s, "l").Acquire(ctx); return err },
		"elector": func() error {
			return elector.Run(ctx, func(ctx context.Context, _ *election.Term) error {
				close(leading)
				<-ctx.Done()
				return nil
			})
		},
	}
	results := map[string]chan error{}
	for name, call := range underWay {
		result := make(chan error, 1)
		results[name] = result
		go func() { result <- call() }()
	}
	receive(t, leading, "the elector leads")
	if _, err := member.Session(bounded(t)); err != nil {
		t.Fatal(err)
	}
	viewer := etcdtest.Shared(t).Client(t)
	until(t, viewer, root, "the worker is there", func() bool {
		resp, err := viewer.Get(bounded(t), keysOf(t, root).Workers(), clientv3.WithPrefix())
		return err == nil && len(resp.Kvs) == 1
	})
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	for name, result := range results {
		if err := soon(t, name, func() error { return <-result }); !errors.Is(err, coord.ErrClosed) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for name, call := range map[string]func() error{
		"open": func() error {
			_, err := workqueue.Open(ctx, client, workqueue.Config{Queue: "q", Root: root})
			return err
		},
		"open a session":    func() error { _, err := coord.OpenSession(ctx, client, coord.SessionConfig{Root: root}); return err },
		"elect":             func() error { _, err := election.New(client, election.Config{Name: "e", Root: root}); return err },
		"names of queues":   func() error { _, err := queues.Names(ctx); return err },
		"list of queues":    func() error { return firstOf(queues.List(ctx, []string{"q"}, workqueue.Filter{})) },
		"counts of queues":  func() error { return firstOf(admin.CountAll(ctx, queues, []string{"q"}, time.Time{})) },
		"enqueue":           func() error { _, err := q.Enqueue(ctx, workqueue.Params{}); return err },
		"enqueue elsewhere": func() error { _, err := fresh.Enqueue(ctx, workqueue.Params{}); return err },
		"enqueue many": func() error {
			results, err := q.EnqueueBatch(ctx, []workqueue.Params{{}, {}})
			return errors.Join(err, results[1].Err)
		},
		"get":           func() error { _, err := q.Get(ctx, "open"); return err },
		"list":          func() error { return firstError(q, workqueue.Filter{}) },
		"wait":          func() error { _, err := q.Wait(ctx, "open"); return err },
		"wait empty":    func() error { return fresh.WaitEmpty(ctx) },
		"stats":         func() error { _, err := admin.Count(ctx, q); return err },
		"undecodable":   func() error { _, err := admin.Undecodable(ctx, fresh); return err },
		"refusals":      func() error { _, err := admin.Refusals(ctx, q); return err },
		"claim":         func() error { _, err := fresh.Claim(ctx, s); return err },
		"claim again":   func() error { _, err := q.Claim(ctx, s); return err },
		"cancel":        func() error { _, err := q.Cancel(ctx, "open", workqueue.By{}); return err },
		"pause":         func() error { return q.Pause(ctx, workqueue.By{}) },
		"progress":      func() error { return claimed.Progress(ctx, nil) },
		"complete":      func() error { return claimed.Complete(ctx, nil) },
		"commit":        func() error { _, err := s.Commit(ctx, nil, clientv3.OpPut("x", "y")); return err },
		"verify":        func() error { return hold.Verify(ctx) },
		"release":       func() error { return hold.Release(ctx) },
		"try a lock":    func() error { _, err := coord.NewLock(s, "other").TryAcquire(ctx); return err },
		"worker":        worker(fresh),
		"elector":       func() error { return elector.Run(ctx, func(context.Context, *election.Term) error { return nil }) },
		"candidates":    func() error { _, err := elector.Candidates(ctx); return err },
		"a new session": func() error { _, err := member.Session(ctx); return err },
		"close session": func() error { return s.Close(ctx) },
		"import": func() error {
			return admin.Import(ctx, q, [][]byte{[]byte(`{"v":1,"where":"jobs","queue":"q","record":{"v":1,"id":"x","born":"b"}}`)}, false, workqueue.By{})[0]
		},
	} {
		if err := soon(t, name, call); err == nil {
			t.Errorf("%s: no error", name)
		} else if !errors.Is(err, coord.ErrClosed) && !errors.Is(err, coord.ErrUnknown) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for _, q := range []*workqueue.Queue{q, fresh} {
		_ = soon(t, "close", func() error { _ = q.Close(); return nil })
	}
}
