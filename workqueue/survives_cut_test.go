package workqueue_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/inside"
	"github.com/leasekit/leasekit/workqueue"
)

// written counts how often key was put since revision rev.
func written(t testing.TB, cl *clientv3.Client, key string, rev int64) (n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	end, err := cl.Put(ctx, key+"-end", "") // as far as it goes
	if err != nil {
		t.Fatal(err)
	}
	for resp := range cl.Watch(ctx, key, clientv3.WithPrefix(), clientv3.WithRev(rev)) {
		for _, ev := range resp.Events {
			if string(ev.Kv.Key) == key && ev.Type == clientv3.EventTypePut {
				n++
			}
			if ev.Kv.ModRevision == end.Header.Revision {
				return n
			}
		}
	}
	t.Fatalf("watch of %s ended", key)
	return 0
}

// The lease of an owner ends mid-job and another has the job: what the first says
// about it is refused, whatever it says, and the second's result counts.
func TestSurvives_01_LateResultsAreRefused(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := openAt(t, cl, workqueue.Config{Root: root})
	first, second := session(t, cl, root), session(t, cl, root)
	for name, closing := range map[string]func(*workqueue.Claim) error{
		"complete":   func(c *workqueue.Claim) error { return c.Complete(bounded(t), []byte("late")) },
		"fail":       func(c *workqueue.Claim) error { return c.Fail(bounded(t), errors.New("late")) },
		"release":    func(c *workqueue.Claim) error { return c.Release(bounded(t)) },
		"checkpoint": func(c *workqueue.Claim) error { return c.Checkpoint(bounded(t), []byte("late")) },
	} {
		owner := session(t, cl, root)
		enqueue(t, q, workqueue.Params{ID: name})
		old := claim(t, cl, root, q, owner)
		revoke(t, cl, root, owner.ID())
		held := claim(t, cl, root, q, second)
		if held.Job().ID != name || held.Token() <= old.Token() {
			t.Fatalf("claimed %s with token %s after %s", held.Job().ID, held.Token(), old.Token())
		}
		if err := closing(old); !errors.Is(err, coord.ErrFenced) {
			t.Errorf("late %s: got %v, want ErrFenced", name, err)
		}
		if err := held.Complete(bounded(t), []byte("good")); err != nil {
			t.Error(err)
		}
		if j := get(t, q, name); string(j.Result) != "good" || trail(j) != "lost completed" || j.Checkpoint != nil {
			t.Errorf("%s: got result %q, checkpoint %q after %q", name, j.Result, j.Checkpoint, trail(j))
		}
	}
	if first.Err() != nil || inside.Of(first).Book().Len() != 0 {
		t.Errorf("a bystander: %v, holds %d", first.Err(), inside.Of(first).Book().Len())
	}
}

// The link of a worker is silent for longer than its lease. It stops before another
// can have its job, the other completes it, and what the first says when the link is
// back is refused: one result is written, once.
func TestSurvives_02_PartitionedWorker(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, etcdtest.Config{Proxies: true})
	cl, root := c.Client(t), etcdtest.Root(t)
	q := openAt(t, cl, workqueue.Config{Root: root})
	began, ended := make(chan struct{}, 8), make(chan time.Time, 8)
	settled := make(chan workqueue.Settlement, 8)
	healed := make(chan struct{})
	cutOff := openAt(t, c.ProxiedClient(t), workqueue.Config{Root: root})
	victim := run(t, cutOff, workqueue.WorkerConfig{
		Concurrency: 1, SessionTTL: 6 * time.Second, Grace: time.Minute,
		Hooks: workqueue.Hooks{Settled: func(_ *workqueue.Job, s workqueue.Settlement) { settled <- s }},
	}, func(ctx context.Context, _ *workqueue.Claim) ([]byte, error) {
		began <- struct{}{}
		<-ctx.Done()
		ended <- time.Now()
		<-healed
		return []byte("late"), nil
	})
	job := enqueue(t, q, workqueue.Params{ID: "j"})[0]
	receive(t, began, "the first begins")
	heirs := make(chan time.Time, 8)
	c.Proxy(0).Pause()
	run(t, q, workqueue.WorkerConfig{SessionTTL: 20 * time.Second}, func(context.Context, *workqueue.Claim) ([]byte, error) {
		heirs <- time.Now()
		return []byte("good"), nil
	})
	stopped, taken := receive(t, ended, "the first is told"), receive(t, heirs, "the second has the job")
	if !stopped.Before(taken) {
		t.Errorf("the first was told %v after the second had begun", stopped.Sub(taken))
	}
	wait(t, q, "j")
	c.Proxy(0).Heal()
	close(healed)
	if s := receive(t, settled, "the first's result is judged"); !s.Refused || !errors.Is(s.Err, coord.ErrFenced) {
		t.Errorf("the late result: %+v", s)
	}
	if j := get(t, q, "j"); string(j.Result) != "good" || trail(j) != "lost completed" {
		t.Errorf("got %q after %q", j.Result, trail(j))
	}
	if n := written(t, cl, keysOf(t, root).Done("j"), job.Revision); n != 1 {
		t.Errorf("%d results were written", n)
	}
	if err := victim.stop(t); err != nil {
		t.Error(err)
	}
}

// History is far ahead and all of it is compacted when a worker's link is back, as
// after a restore with --bump-revision and --mark-compacted, which no watch survives.
// That is simulated: the revisions are made by writes. Mirrors list again, claims go
// on being current, and tokens rise.
func TestSurvives_37_RevisionJumps(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, etcdtest.Config{Proxies: true})
	cl, root := c.Client(t), etcdtest.Root(t)
	q := openAt(t, c.ProxiedClient(t), workqueue.Config{Root: root})
	others := openAt(t, cl, workqueue.Config{Root: root})
	tokens := make(chan coord.Token, 8)
	goOn := make(chan struct{})
	run(t, q, workqueue.WorkerConfig{SessionTTL: 30 * time.Second}, func(_ context.Context, c *workqueue.Claim) ([]byte, error) {
		tokens <- c.Token()
		if c.Job().ID == "before" {
			<-goOn
		}
		return nil, nil
	})
	enqueue(t, others, workqueue.Params{ID: "before"})
	before := receive(t, tokens, "the first job runs")
	c.Proxy(0).Refuse()
	enqueue(t, others, workqueue.Params{ID: "missed"}) // its event is compacted too
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for range 100 {
				if _, err := cl.Put(bounded(t), root+"zz", ""); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	resp, err := cl.Get(bounded(t), root)
	if err != nil {
		t.Fatal(err)
	}
	jumped := resp.Header.Revision
	if _, err := cl.Compact(bounded(t), jumped, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	c.Proxy(0).Heal()
	if got := receive(t, tokens, "the job that was missed runs"); got <= before || int64(got) <= jumped {
		t.Errorf("token %s behind a jump from %s to revision %d", got, before, jumped)
	}
	close(goOn)
	for _, id := range []string{"before", "missed"} {
		if j := wait(t, others, id); trail(j) != "completed" || j.Losses != 0 {
			t.Errorf("%s: got %q, %d losses", id, trail(j), j.Losses)
		}
	}
	enqueue(t, others, workqueue.Params{ID: "after"}) // by the new watch
	receive(t, tokens, "a job behind the jump runs")
}
