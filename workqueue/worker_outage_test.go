package workqueue_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/workqueue"
)

// Etcd stops under load, stays away for longer than the sessions live, and comes
// back: the calls while it is down are few, and everything is done once it is back.
// TestSurvives_35, seen from the workers.
func TestSurvives_35_EtcdRestarts(t *testing.T) {
	t.Parallel()
	const jobs = 400
	c := etcdtest.New(t, etcdtest.Config{})
	root := etcdtest.Root(t)
	var rec etcdtest.Recorder
	q := openAt(t, c.Client(t, rec.DialOptions()...), workqueue.Config{Root: root, Backoff: workqueue.Backoff{Initial: time.Millisecond}})
	enqueue(t, q, numbered(jobs, workqueue.Params{MaxLosses: 50, MaxAttempts: 50})...)
	underWay := make(chan struct{})
	var once sync.Once
	n := &tally{}
	run(t, q, workqueue.WorkerConfig{Concurrency: 8, SessionTTL: time.Second}, func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
		if n.add("runs") == jobs/10 {
			once.Do(func() { close(underWay) })
		}
		return nil, nil
	})
	receive(t, underWay, "the worker is under way")
	c.Member(0).Stop()
	rec.Reset()
	began := time.Now()
	// Keepalives are the clock of a process without etcd: the session is lost and new
	// ones are asked for.
	if err := rec.Wait(bounded(t), "LeaseGrant", 6); err != nil {
		t.Fatal(err)
	}
	down, calls := time.Since(began), 0
	counts := rec.Counts()
	for _, k := range counts {
		calls += k
	}
	if limit := 200 * (1 + down.Seconds()); float64(calls) > limit {
		t.Errorf("%d calls in %v without etcd: %v", calls, down, counts)
	}
	t.Logf("%d calls in %v without etcd: %v", calls, down, counts)
	if err := c.Member(0).Restart(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if err := q.WaitEmpty(bounded(t)); err != nil {
		t.Fatal(err)
	}
	done := 0
	for j, err := range q.List(bounded(t), workqueue.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if done++; j.State != workqueue.StateDone {
			t.Errorf("%s is %s", j.ID, j.State)
		}
	}
	if done != jobs {
		t.Errorf("%d jobs are done, want %d", done, jobs)
	}
}

// A full etcd: what is completed then is completed once there is room, and no job
// runs twice meanwhile. TestSurvives_38.
func TestSurvives_38_NoSpace(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, etcdtest.Config{QuotaBackendBytes: 4 << 20})
	cl, root := c.Client(t), etcdtest.Root(t)
	q := openAt(t, cl, workqueue.Config{Root: root})
	started, finish := make(chan struct{}, 8), make(chan struct{})
	runs := &tally{}
	run(t, q, workqueue.WorkerConfig{SessionTTL: 20 * time.Second}, func(_ context.Context, c *workqueue.Claim) ([]byte, error) {
		runs.add(c.Job().ID)
		started <- struct{}{}
		<-finish
		return []byte("r"), nil
	})
	enqueue(t, q, workqueue.Params{ID: "a"}, workqueue.Params{ID: "b"})
	receive(t, started, "one job starts")
	receive(t, started, "the other starts")
	for i := 0; ; i++ {
		_, err := cl.Put(bounded(t), "/fill/"+itoa(i), string(bytes.Repeat([]byte("x"), 256<<10)))
		if errors.Is(err, rpctypes.ErrNoSpace) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var rec etcdtest.Recorder
	others := openAt(t, c.Client(t, rec.DialOptions()...), workqueue.Config{Root: root})
	// The question is asked behind the first enqueue, which itself gets no answer.
	until(t, cl, root, "enqueues are refused", func() bool {
		ctx, cancel := context.WithTimeout(bounded(t), 100*time.Millisecond)
		defer cancel()
		_, err := others.Enqueue(ctx, workqueue.Params{ID: "c"})
		return errors.Is(err, workqueue.ErrBacklogFull)
	})
	close(finish) // both complete into a full etcd
	if j := get(t, q, "a"); j.State != workqueue.StateClaimed {
		t.Errorf("job a is %s in a full etcd", j.State)
	}
	rec.Reset()
	if _, err := cl.Delete(bounded(t), "/fill/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	resp, err := cl.Get(bounded(t), "/")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cl.Compact(bounded(t), resp.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	if _, err := cl.Defragment(bounded(t), c.Endpoints()[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := cl.AlarmDisarm(bounded(t), &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b"} {
		if j := wait(t, q, id); j.State != workqueue.StateDone || j.Attempt != 1 || runs.get(id) != 1 {
			t.Errorf("%s: %s after %d attempts, %d runs", id, j.State, j.Attempt, runs.get(id))
		}
	}
}

// Enqueues are refused well before the quota is reached, while completions still
// work.
func TestBacklogIsRefusedBeforeTheQuota(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, etcdtest.Config{QuotaBackendBytes: 16 << 20})
	cl, root := c.Client(t), etcdtest.Root(t)
	q := openAt(t, cl, workqueue.Config{Root: root})
	payload := bytes.Repeat([]byte("x"), 2<<10)
	var full atomic.Bool
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for !full.Load() {
				_, err := q.Enqueue(bounded(t), workqueue.Params{Payload: payload})
				if errors.Is(err, workqueue.ErrBacklogFull) {
					full.Store(true)
				} else if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := claim(t, cl, root, q, session(t, cl, root)).Complete(bounded(t), nil); err != nil {
		t.Errorf("complete: %v", err)
	}
	st, err := cl.Status(bounded(t), c.Endpoints()[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("refused at %d of %d bytes", st.DbSize, st.DbSizeQuota)
}

// Compactions under load cost nothing.
func TestCompactionUnderLoad(t *testing.T) {
	t.Parallel()
	const jobs = 500
	c := etcdtest.New(t, etcdtest.Config{})
	cl, root := c.Client(t), etcdtest.Root(t)
	q := openAt(t, cl, workqueue.Config{Root: root})
	n := &tally{}
	run(t, q, workqueue.WorkerConfig{Concurrency: 8}, func(_ context.Context, c *workqueue.Claim) ([]byte, error) {
		n.add(c.Job().ID)
		return nil, nil
	})
	ctx, stop := context.WithCancel(bounded(t))
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			if resp, err := cl.Get(ctx, root); err == nil {
				_, _ = cl.Compact(ctx, resp.Header.Revision) // another one may be under way
			}
		}
	})
	enqueue(t, q, numbered(jobs, workqueue.Params{})...)
	if err := q.WaitEmpty(bounded(t)); err != nil {
		t.Fatal(err)
	}
	stop()
	wg.Wait()
	once(t, n, jobs)
}

// A restore from a backup: workers' sessions end, mirrors list again, and work goes
// on from what is there.
func TestWorkersSurviveARewind(t *testing.T) {
	t.Parallel()
	server, err := embedetcd.Start(bounded(t), embedetcd.Config{Fast: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	member := server.Members()[0]
	data, backup := filepath.Join(server.Dir(), member.Name()), filepath.Join(t.TempDir(), "backup")
	cl, root := etcdtest.NewClient(t, server.Endpoints()), etcdtest.Root(t)
	q := openAt(t, etcdtest.NewClient(t, server.Endpoints()), workqueue.Config{Root: root, Quiet: 300 * time.Millisecond})
	causes, owners := make(chan error, 100), make(chan string, 100)
	run(t, q, workqueue.WorkerConfig{SessionTTL: 20 * time.Second}, func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
		owners <- c.Job().Owner
		if c.Job().Kind == "block" && c.Job().Attempt == 1 {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return nil, ctx.Err()
		}
		return nil, nil
	})
	enqueue(t, q, workqueue.Params{ID: "before"})
	wait(t, q, "before")
	first := receive(t, owners, "a job runs")
	member.Stop()
	if err := os.CopyFS(backup, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	restart := func() {
		t.Helper()
		if err := member.Restart(bounded(t)); err != nil {
			t.Fatal(err)
		}
	}
	restart()
	enqueue(t, q, numbered(50, workqueue.Params{})...)
	if err := q.WaitEmpty(bounded(t)); err != nil {
		t.Fatal(err)
	}
	enqueue(t, q, workqueue.Params{ID: "lost", Kind: "block"})
	until(t, cl, root, "the blocking job runs", func() bool { return get(t, q, "lost").State == workqueue.StateClaimed })
	member.Stop()
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(data, os.DirFS(backup)); err != nil {
		t.Fatal(err)
	}
	restart()
	if got := receive(t, causes, "the handler's context ends"); !errors.Is(got, coord.ErrHistoryRewound) && !errors.Is(got, coord.ErrFenced) {
		t.Errorf("got cause %v", got)
	}
	fresh := openAt(t, cl, workqueue.Config{Root: root})
	enqueue(t, fresh, workqueue.Params{ID: "after"})
	wait(t, fresh, "after")
	for owner := first; owner == first; {
		owner = receive(t, owners, "another session works")
	}
}
