package history_test

import (
	"errors"
	"testing"
	"time"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/integration/history"
	"github.com/leasekit/leasekit/workqueue"
)

// claim claims a job as soon as the queue's mirror shows one.
func claim(t *testing.T, q *history.Queue, s *coord.Session) *workqueue.Claim {
	t.Helper()
	ctx := bounded(t)
	for again := time.NewTicker(10 * time.Millisecond); ; {
		c, err := q.Claim(ctx, s)
		if err == nil {
			return c
		}
		if !errors.Is(err, workqueue.ErrEmpty) {
			t.Fatal(err)
		}
		<-again.C
	}
}

// What operators do by hand to real jobs is recorded, and passes.
func TestRepairsPass(t *testing.T) {
	t.Parallel()
	cl, root := etcdtest.Shared(t).Client(t), etcdtest.Root(t)
	w := witness(t, cl, history.WitnessConfig{Root: root, From: put(t, cl, "/before"+root)})
	rec := history.NewRecorder("p")
	open := func(name string) *history.Queue {
		q, err := workqueue.Open(bounded(t), cl, workqueue.Config{Queue: name, Root: root})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = q.Close() })
		return rec.Queue("ops", q)
	}
	q, other := open("q"), open("other")
	s, err := coord.OpenSession(bounded(t), cl, coord.SessionConfig{Root: root, TTL: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	must := func(j *workqueue.Job, err error) *workqueue.Job {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	by := workqueue.By{Actor: "ops", Reason: "test", BreakClaim: true}
	for _, id := range []string{"edited", "moved", "buried", "deleted"} {
		must(q.Enqueue(bounded(t), workqueue.Params{ID: id}))
		c := claim(t, q, s)
		if id == "deleted" {
			if err := rec.Release(bounded(t), c); err != nil {
				t.Fatal(err)
			}
			must(q.Delete(bounded(t), id, by))
			continue
		}
		// The claim is broken by that.
		switch id {
		case "edited":
			must(q.Edit(bounded(t), id, func(p *workqueue.Params) error { p.RunAt = time.Now().Add(time.Hour); return nil }, by))
		case "moved":
			must(q.Move(bounded(t), id, "other", by))
		case "buried":
			must(q.BreakClaim(bounded(t), id, by))
			must(q.Bury(bounded(t), id, by))
			must(q.Move(bounded(t), id, "other", by))
		}
		if err := rec.Complete(bounded(t), c, nil); err == nil {
			t.Errorf("%s: a broken claim completes", id)
		}
	}
	must(other.Cancel(bounded(t), "moved", by))
	if err := s.Close(bounded(t)); err != nil {
		t.Error(err)
	}
	final, err := history.ReadFinal(bounded(t), cl, root)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WaitSeen(bounded(t), final.Revision); err != nil {
		t.Fatal(err)
	}
	run := history.Run{Root: root, Log: rec.Log(), Events: w.Events(), Final: final}
	report := history.Check(run, bounds)
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	if got := report.Stats; got.Jobs != 4 || got.Dead != 1 || got.Cancelled != 1 || got.Live != 1 || got.Deleted != 1 {
		t.Errorf("got %v", got)
	}
	if err := history.CheckLinearizable(run, history.LinearConfig{Dir: t.TempDir()}); err != nil {
		t.Error(err)
	}
}
