package desk

import (
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/top"
	"github.com/leasekit/leasekit/workqueue"
)

// table is an etcd with a queue, and a desk at it.
type table struct {
	*testing.T
	queue *workqueue.Queue
}

func newTable(t *testing.T, f func(context.Context, *table, *topDesk) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clitest.Patience)
	defer cancel()
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true})
	q, err := workqueue.Open(ctx, etcdtest.NewClient(t, etcd.Endpoints()), workqueue.Config{Queue: "q"})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	a := &cli.App{Out: io.Discard, Err: io.Discard, Getenv: func(string) string { return "" },
		Settings: connect.Settings{Endpoints: etcd.Endpoints()[0], Root: connect.DefaultRoot, DialTimeout: 10 * time.Second}}
	if err := withDesk(ctx, a, func(d *topDesk) error { return f(ctx, &table{t, q}, d) }); err != nil {
		t.Error(err)
	}
}

func (s *table) enqueue(ids ...string) {
	s.Helper()
	for _, id := range ids {
		if _, err := s.queue.Enqueue(s.Context(), workqueue.Params{ID: id}); err != nil {
			s.Fatal(err)
		}
	}
}

// What cannot be seen any more is said to have been missed, and the watch goes on from what is now; who runs what is
// asked for anew.
func TestTopSaysWhatItMissed(t *testing.T) {
	t.Parallel()
	newTable(t, func(ctx context.Context, s *table, d *topDesk) error {
		s.enqueue("a", "b")
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		rev, err := d.revision(ctx)
		if err != nil {
			return err
		}
		if _, err := d.c.Compact(ctx, rev); err != nil {
			return err
		}
		d.next.Store(1)
		var r top.Recorder
		var following sync.WaitGroup
		following.Go(func() { d.follow(ctx, &r) })
		defer following.Wait()
		defer cancel()
		until := func(what string, ok func(top.News) bool) {
			t.Helper()
			again := time.NewTicker(10 * time.Millisecond)
			defer again.Stop()
			var last top.News
			for ctx.Err() == nil {
				if last, _ = r.Take(time.Now()); ok(last) {
					return
				}
				<-again.C
			}
			t.Errorf("never: %s; the last news was %+v", what, last)
		}
		gap := func(n top.News) bool { return n.Gap }
		unseen := func(n top.News) bool { return n.Unseen != "" }
		seen := func(n top.News) bool { return n.Unseen == "" }
		until("a gap after a compaction", gap)
		until("that nothing is watched after a compaction", unseen)
		until("a watch after a compaction", seen)
		s.enqueue("c")
		until("an event after the gap", func(n top.News) bool { return len(n.Events) == 1 && n.Events[0].About == "q/c" })
		d.rewound <- struct{}{}
		until("a gap after a restore", gap)
		until("that nothing is watched after a restore", unseen)
		until("a watch after a restore", seen)
		return nil
	})
}

// Every action is guarded by the revision that was shown, also where there is no config yet.
func TestTopActsOnWhatWasShown(t *testing.T) {
	t.Parallel()
	newTable(t, func(ctx context.Context, s *table, d *topDesk) error {
		s.enqueue("dead", "other")
		for _, id := range []string{"dead", "other"} {
			if _, err := admin.Bury(ctx, s.queue, id, workqueue.By{Actor: "test"}); err != nil {
				return err
			}
		}
		if err := s.queue.Pause(ctx, workqueue.By{Actor: "somebody"}); err != nil {
			return err
		}
		if err := d.SetPaused(ctx, "q", false, 0); exit.Code(err) != exit.Conflict {
			t.Errorf("resumed what was paused since it was shown: %v", err)
		}
		l, err := d.look(ctx)
		if err != nil {
			return err
		}
		if err := d.SetPaused(ctx, "q", false, l.Queues[0].Revision); err != nil {
			t.Error(err)
		}
		f, err := d.FindDead(ctx, "q")
		if err != nil {
			return err
		}
		if _, err := s.queue.Requeue(ctx, "other", workqueue.By{Actor: "somebody"}); err != nil {
			return err
		}
		said, err := f.Retry(ctx)
		if want := "1 of 2 dead jobs retried, 1 skipped: moved since"; said != want || err != nil {
			t.Errorf("said %q, %v; want %q", said, err, want)
		}
		if _, err := d.Jobs(ctx, "q", "queue:another"); exit.Code(err) != exit.Usage {
			t.Errorf("a filter for another queue: %v", err)
		}
		return nil
	})
}
