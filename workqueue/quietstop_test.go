package workqueue_test

import (
	"context"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/election"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/workqueue"
)

// A program that stops everything in order hears no warning, neither of the etcd client
// nor of ours: not when it is idle, nor with jobs and waiters under way.
func TestACleanStopIsQuiet(t *testing.T) {
	t.Parallel()
	for name, busy := range map[string]bool{"idle": false, "busy": true} {
		for _, mode := range []string{workqueue.ModeClaim, workqueue.ModeDispatch} {
			t.Run(name+" "+mode, func(t *testing.T) {
				t.Parallel()
				root := etcdtest.Root(t)
				core, logs := observer.New(zapcore.WarnLevel)
				log := zap.New(core)
				client, err := clientv3.New(clientv3.Config{Endpoints: etcdtest.Shared(t).Endpoints(), Logger: log.Named("etcd-client")})
				if err != nil {
					t.Fatal(err)
				}
				stopController(t, client, root, mode, log, busy)
				if err := client.Close(); err != nil {
					t.Fatal(err)
				}
				for _, e := range logs.All() {
					t.Errorf("%s %s: %s %v", e.Level, e.LoggerName, e.Message, e.ContextMap())
				}
			})
		}
	}
}

// stopController runs what a controller runs, and stops it in order.
func stopController(t *testing.T, client *clientv3.Client, root, mode string, log *zap.Logger, busy bool) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	q := openAt(t, client, workqueue.Config{Root: root, Logger: log})
	if err := q.SetMode(ctx, mode, workqueue.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	w, err := workqueue.NewWorker(q, workqueue.HandlerFunc(func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
		if c.Job().ID == "slow" {
			<-ctx.Done()
		}
		return nil, context.Cause(ctx)
	}), workqueue.WorkerConfig{Concurrency: 2, DrainTimeout: time.Millisecond, StandForDispatcher: true})
	if err != nil {
		t.Fatal(err)
	}
	e, err := election.New(client, election.Config{Name: "e", Root: root, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	member := coord.NewSessionKeeper(client, coord.SessionConfig{Root: root, Logger: log})
	leads := make(chan struct{})
	var wg sync.WaitGroup
	run := func(what string, f func(context.Context) error) {
		wg.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	run("worker", w.Run)
	run("member", member.Run)
	run("elector", func(ctx context.Context) error {
		return e.Run(ctx, func(ctx context.Context, _ *election.Term) error {
			close(leads)
			<-ctx.Done()
			return nil
		})
	})
	receive(t, leads, "the elector leads")
	enqueue(t, q, workqueue.Params{ID: "first"})
	wait(t, q, "first")
	s, err := member.Session(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := coord.NewLock(s, "l").Acquire(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if busy {
		enqueue(t, q, workqueue.Params{ID: "slow"}, workqueue.Params{ID: "later", RunAt: time.Now().Add(time.Hour)})
		until(t, client, root, "a job runs", func() bool { return get(t, q, "slow").State == workqueue.StateClaimed })
		run("wait", func(ctx context.Context) error { _, err := q.Wait(ctx, "later"); return err })
		run("wait empty", q.WaitEmpty)
		run("lock", func(ctx context.Context) error { _, err := coord.NewLock(s, "l").Acquire(ctx); return err })
		run("observe", func(ctx context.Context) error {
			for range e.Observe(ctx) {
			}
			return nil
		})
		run("enqueue", func(ctx context.Context) error {
			for ctx.Err() == nil {
				if _, err := q.Enqueue(ctx, workqueue.Params{RunAt: time.Now().Add(time.Hour)}); err != nil {
					return err
				}
			}
			return nil
		})
		run("get", func(ctx context.Context) error {
			for ctx.Err() == nil {
				if _, err := q.Get(ctx, "later"); err != nil {
					return err
				}
			}
			return nil
		})
	}
	cancel()
	wg.Wait()
	if err := q.Close(); err != nil {
		t.Error(err)
	}
}
