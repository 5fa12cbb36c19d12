package leasectl

import (
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/leasectl/top"
	"github.com/leasekit/leasekit/workqueue"
)

// What cannot be seen any more is said to have been missed, and the watch goes on from what is now; who runs what is
// asked for anew.
func TestTopSaysWhatItMissed(t *testing.T) {
	t.Parallel()
	s := newStation(t, startEtcd(t, embedetcd.Config{Fast: true}))
	s.enqueue("a", "b")
	a := &app{out: io.Discard, err: io.Discard, getenv: func(string) string { return "" }}
	a.settings.endpoints, a.settings.root, a.settings.dialTimeout = s.endpoints, s.root, 10*time.Second
	a.settings.origin = map[string]string{}
	err := withDesk(s.within(patience), a, func(d *topDesk) error {
		ctx, cancel := context.WithCancel(s.within(patience))
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
	if err != nil {
		t.Error(err)
	}
}

// Every action is guarded by the revision that was shown, also where there is no config yet.
func TestTopActsOnWhatWasShown(t *testing.T) {
	t.Parallel()
	s := newStation(t, startEtcd(t, embedetcd.Config{Fast: true}))
	s.enqueue("dead", "other")
	for _, id := range []string{"dead", "other"} {
		if _, err := s.queue.Bury(s.within(patience), id, workqueue.By{Actor: "test"}); err != nil {
			t.Fatal(err)
		}
	}
	a := &app{out: io.Discard, err: io.Discard, getenv: func(string) string { return "" }}
	a.settings.endpoints, a.settings.root, a.settings.dialTimeout = s.endpoints, s.root, 10*time.Second
	a.settings.origin = map[string]string{}
	err := withDesk(s.within(patience), a, func(d *topDesk) error {
		ctx := s.within(patience)
		if err := s.queue.Pause(ctx, workqueue.By{Actor: "somebody"}); err != nil {
			return err
		}
		if err := d.SetPaused(ctx, testQueue, false, 0); exitCode(err) != exitConflict {
			t.Errorf("resumed what was paused since it was shown: %v", err)
		}
		l, err := d.look(ctx)
		if err != nil {
			return err
		}
		if err := d.SetPaused(ctx, testQueue, false, l.Queues[0].Revision); err != nil {
			t.Error(err)
		}
		f, err := d.FindDead(ctx, testQueue)
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
		if _, err := d.Jobs(ctx, testQueue, "queue:another"); exitCode(err) != exitUsage {
			t.Errorf("a filter for another queue: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
