package integration_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/integration/history"
	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/workqueue"
)

// rewindable is an etcd that can be restored from a backup of its data.
type rewindable struct {
	server       *embedetcd.Cluster
	data, backup string
}

func newRewindable(t *testing.T) *rewindable {
	t.Helper()
	server, err := embedetcd.Start(bounded(t), embedetcd.Config{Fast: true, CompactAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return &rewindable{
		server: server, data: filepath.Join(server.Dir(), server.Members()[0].Name()), backup: filepath.Join(t.TempDir(), "backup"),
	}
}

// copyWhileDown stops etcd, copies a directory over another, and starts it again.
func (r *rewindable) copyWhileDown(t *testing.T, from, to string) {
	t.Helper()
	member := r.server.Members()[0]
	member.Stop()
	if err := errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(from))); err != nil {
		t.Fatal(err)
	}
	if err := member.Restart(bounded(t)); err != nil {
		t.Fatal(err)
	}
}

// A busy etcd is restored from a backup under the eyes of its workers. What was
// acknowledged before the backup is worked to its end, once, in the history that is
// left, and no claim of the history that is lost has any effect on it.
func TestChaosRewound(t *testing.T) {
	etcd := newRewindable(t)
	root := etcdtest.Root(t)
	admin := etcdtest.NewClient(t, etcd.server.Endpoints())
	rec := history.NewRecorder("rewound")
	q := open(t, admin, root)
	ended := make(chan string, 10_000)
	runWorkers(t, etcd, root, rec, ended)

	fill(t, q, "before")
	awaitEnds(t, ended, 100)
	etcd.copyWhileDown(t, etcd.data, etcd.backup)
	fill(t, q, "lost") // acknowledged after the backup: nothing is promised
	awaitEnds(t, ended, 150)
	etcd.copyWhileDown(t, etcd.backup, etcd.data)
	fill(t, q, "after")
	if err := q.WaitEmpty(bounded(t)); err != nil {
		t.Fatal(err)
	}
	for _, batch := range []string{"before", "after"} {
		for i := range rewoundJobs {
			if j, err := q.Get(bounded(t), fmt.Sprint(batch, i)); err != nil || j.State != workqueue.StateDone {
				t.Errorf("%s%d: %+v, %v", batch, i, j, err)
			}
		}
	}
	if missing := rec.Log().Missing(history.Rewound, history.SessionLost); len(missing) > 0 {
		t.Errorf("never reached: %v", missing)
	}
	checkOneHistory(t, admin, root)
}

const rewoundJobs = 200

// fill enqueues jobs. An outcome that the restore has made unknown is asked again.
func fill(t *testing.T, q *workqueue.Queue, prefix string) {
	t.Helper()
	items := make([]workqueue.Params, rewoundJobs)
	for i := range items {
		items[i] = workqueue.Params{ID: fmt.Sprint(prefix, i), Dedup: workqueue.UntilRetained}
	}
	for ctx := bounded(t); len(items) > 0; {
		results, err := q.EnqueueBatch(ctx, items)
		if err != nil {
			t.Fatal(err)
		}
		var again []workqueue.Params
		for i, r := range results {
			if r.Err != nil && !errors.Is(r.Err, workqueue.ErrExists) {
				again = append(again, items[i])
			}
		}
		if items = again; ctx.Err() != nil {
			t.Fatalf("%d jobs are not enqueued: %v", len(items), results)
		}
	}
}

// runWorkers runs three workers, each with a client and a queue of its own.
func runWorkers(t *testing.T, etcd *rewindable, root string, rec *history.Recorder, ended chan<- string) {
	t.Helper()
	const workers = 3
	clients := make([]*clientv3.Client, workers) // which are closed behind the workers' end
	for i := range clients {
		clients[i] = etcdtest.NewClient(t, etcd.server.Endpoints())
	}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() {
		stop()
		wg.Wait()
	})
	for _, cl := range clients {
		cfg := queueConfig(zap.New(rec.Reached().Core()))
		cfg.Root = root
		q, err := workqueue.Open(bounded(t), cl, cfg)
		if err != nil {
			t.Fatal(err)
		}
		w, err := workqueue.NewWorker(q, workqueue.HandlerFunc(func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
			return nil, busy(ctx, 10*time.Millisecond)
		}), workqueue.WorkerConfig{
			Concurrency: 4, SessionTTL: 3 * time.Second,
			Hooks: workqueue.Hooks{Settled: func(j *workqueue.Job, _ workqueue.Settlement) { ended <- j.ID }},
		})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			if err := errors.Join(w.Run(ctx), q.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

func awaitEnds(t *testing.T, ended <-chan string, n int) {
	t.Helper()
	ctx := bounded(t)
	for range n {
		select {
		case <-ended:
		case <-ctx.Done():
			t.Fatal("the workers stand still")
		}
	}
}

// checkOneHistory replays the history that is left, from its beginning: it must be
// one in which every step was allowed. What clients were told of the lost one does
// not count.
func checkOneHistory(t *testing.T, cl *clientv3.Client, root string) {
	t.Helper()
	w, err := history.StartWitness(t.Context(), cl, history.WitnessConfig{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	final, err := history.ReadFinal(bounded(t), cl, root)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WaitSeen(bounded(t), final.Revision); err != nil {
		t.Fatal(err)
	}
	report := history.Check(history.Run{Root: root, Log: &history.Log{}, Events: w.Events(), Final: final, Partial: true}, history.Bounds{})
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	t.Logf("summary: rewound: %+v", report.Stats)
}
