package history_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/integration/history"
	"github.com/leasekit/leasekit/workqueue"
)

const (
	workers = 4
	jobs    = 300
)

// stage is a cluster with a proxy, and a recorder.
type stage struct {
	c    *etcdtest.Cluster
	root string
	rec  *history.Recorder
	rpcs *history.RPCs
}

func (s *stage) open(t *testing.T) *workqueue.Queue {
	t.Helper()
	q, err := workqueue.Open(bounded(t), s.c.ProxiedClient(t, s.rpcs.DialOptions()...), workqueue.Config{
		Queue: "q", Root: s.root, Backoff: workqueue.Backoff{Initial: 10 * time.Millisecond},
		Logger: zap.New(s.rec.Reached().Core()),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Errorf("close queue: %v", err)
		}
	})
	return q
}

// fate is what becomes of an attempt, decided by its number and the job's name, so
// that every run has all of it.
func fate(id string, attempt int) uint32 {
	h := fnv.New32a()
	fmt.Fprint(h, id, attempt)
	return h.Sum32() % 20
}

func (s *stage) handle(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
	id := c.Job().ID
	switch fate(id, c.Job().Attempt) {
	case 0, 1:
		return nil, errors.New("bad luck")
	case 2:
		return nil, workqueue.Snooze(time.Millisecond)
	case 3:
		panic("worse luck")
	case 4:
		return nil, workqueue.Permanent(errors.New("no luck"))
	case 5:
		return nil, workqueue.Cancel(errors.New("no need"))
	case 6, 7, 8:
		return nil, s.rec.Complete(ctx, c, []byte(`"r"`), clientv3.OpPut("/caller"+s.root+id, fmt.Sprint(c.Token())))
	case 9, 10:
		if err := s.rec.Checkpoint(ctx, c, []byte(`"half"`)); err != nil {
			return nil, err
		}
	case 11:
		return nil, s.rec.Release(ctx, c)
	case 12:
		return nil, s.rec.Fail(ctx, c, errors.New("by hand"))
	}
	return []byte(`"done"`), nil
}

// A short run with lost answers and operators at work passes, and does not pass for
// nothing: it came by both branches of a lost answer.
func TestARunWithLostAnswersPasses(t *testing.T) {
	s := &stage{c: etcdtest.New(t, etcdtest.Config{Proxies: true}), root: etcdtest.Root(t), rec: history.NewRecorder("test"), rpcs: &history.RPCs{}}
	direct := s.c.Client(t)
	w := witness(t, direct, history.WitnessConfig{Root: s.root, Also: []string{"/caller" + s.root}})
	producer := s.rec.Queue("producer", s.open(t))

	ctx, stop := context.WithCancel(t.Context())
	var running, faulty sync.WaitGroup
	for range workers {
		q := s.open(t)
		worker, err := workqueue.NewWorker(q, s.rec.Handler(workqueue.HandlerFunc(s.handle)), workqueue.WorkerConfig{
			Concurrency: 4, SessionTTL: 3 * time.Second, Hooks: s.rec.Hooks(workqueue.Hooks{}),
		})
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			if err := worker.Run(ctx); err != nil {
				t.Errorf("worker: %v", err)
			}
		})
	}
	faultCtx, noFaults := context.WithCancel(t.Context())
	faulty.Go(func() { s.loseAnswers(faultCtx) })
	s.produce(t, producer)
	noFaults()
	faulty.Wait()
	if err := producer.WaitEmpty(bounded(t)); err != nil {
		t.Error(err)
	}
	stop()
	running.Wait()
	s.judge(t, w, direct)
}

// loseAnswers loses answers, and requests, until ctx ends.
func (s *stage) loseAnswers(ctx context.Context) {
	p := s.c.Proxy(0)
	for i := 0; ctx.Err() == nil; i++ {
		if i%2 == 0 {
			p.PauseAnswers()
			_ = p.WaitAnswers(ctx, 1)
		} else {
			p.PauseRequests()
			_ = p.WaitRequests(ctx, 1)
		}
		p.Drop()
		p.Heal()
		s.rec.Reached().Hit("fault:lose-answers")
		select {
		case <-time.After(1500 * time.Millisecond): // or no client would ever be connected again
		case <-ctx.Done():
		}
	}
}

// produce enqueues jobs, and meddles with some of them.
func (s *stage) produce(t *testing.T, q *history.Queue) {
	t.Helper()
	by := workqueue.By{Actor: "ops", Reason: "test"}
	pace := time.NewTicker(250 * time.Millisecond) // so that the faults hit all of the run
	defer pace.Stop()
	for i := 0; i < jobs; i += 10 {
		<-pace.C
		items := make([]workqueue.Params, 10)
		for k := range items {
			items[k] = workqueue.Params{ID: fmt.Sprintf("j%d", i+k), AtMostOnce: (i+k)%17 == 0, Priority: k % 2}
		}
		ctx := bounded(t)
		if i%50 == 20 {
			short, cancel := context.WithTimeout(ctx, 20*time.Millisecond) // so some outcomes are never known
			defer cancel()
			ctx = short
		}
		results, err := q.EnqueueBatch(ctx, items)
		if err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		for _, r := range results {
			if result, _ := history.Judge(r.Err); result != history.Applied && i%50 != 20 {
				t.Errorf("enqueue: %v", r.Err)
			}
		}
		// Whether these apply hangs on who is faster.
		_, _ = q.Cancel(bounded(t), items[3].ID, by)
		_, _ = q.BreakClaim(bounded(t), items[4].ID, by)
		_, _ = q.Requeue(bounded(t), items[5].ID, by)
		_, _ = q.Bury(bounded(t), items[6].ID, by)
		_, _ = q.Requeue(bounded(t), items[3].ID, by)
	}
}

func (s *stage) judge(t *testing.T, w *history.Witness, cl *clientv3.Client) {
	t.Helper()
	final, err := history.ReadFinal(bounded(t), cl, s.root, "/caller"+s.root)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WaitSeen(bounded(t), final.Revision); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	run := history.Run{Root: s.root, Log: s.rec.Log(), Events: w.Events(), Final: final}
	began := time.Now()
	report := history.Check(run, history.Bounds{Reclaim: patience, Overlap: 5 * time.Second, Return: 30 * time.Second})
	t.Logf("checked %d events in %v\n%v\nreached %v", len(run.Events), time.Since(began), report.Stats, run.Log.Reached)
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	began = time.Now()
	if err := history.CheckLinearizable(run, history.LinearConfig{Dir: t.TempDir()}); err != nil {
		t.Error(err)
	}
	t.Logf("linearizable, found in %v", time.Since(began))
	if missing := run.Log.Missing(history.AmbiguousYes, history.AmbiguousNo, "fault:lose-answers"); len(missing) > 0 {
		t.Errorf("not reached: %v", missing)
	}
	if err := s.rpcs.Err(); err != nil || s.rpcs.Calls() == 0 {
		t.Errorf("%d calls: %v", s.rpcs.Calls(), err)
	}
	if report.Stats.Jobs < jobs/2 || report.Stats.Effects == 0 || report.Stats.Transitions["claim"] < jobs/2 {
		t.Errorf("little was checked: %v", report.Stats)
	}
}
