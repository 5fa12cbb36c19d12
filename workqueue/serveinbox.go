package workqueue

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/coord"
)

const (
	// leaveTimeout bounds what a worker does to leave a queue in order: what it cannot
	// give back in that time ends with its session.
	leaveTimeout = 5 * time.Second
	// hungPause is for how long a job is put off that came back to a worker in which a
	// handler of an earlier attempt still runs. Dispatchers prefer others for it.
	hungPause = time.Second
)

// serveInbox works what is assigned to the session, until the session, ctx, or the
// mode is over.
func (w *Worker) serveInbox(ctx context.Context, s *coord.Session) {
	box := newInbox(w.q, s)
	m := w.q.store.Mirror(w.q.cfg.Quiet, w.q.cfg.ScanEvery)
	m.Add(box.prefix, box)
	m.Add(w.q.keys.Worker(s.ID()), registration{box})
	life, cancel := context.WithCancel(context.Background())
	w.wg.Go(func() { _ = m.Run(life) })
	stays := w.followInbox(ctx, s, box)
	// Joined by drain. What still runs must hear of it when its job is taken away, so
	// the inbox is watched until nothing does.
	w.wg.Go(func() {
		defer cancel()
		if stays {
			box.close(nil)
		} else {
			w.leave(s, box)
		}
		box.working.Wait()
		box.abandon()
	})
}

// followInbox begins what comes. It returns true when all was worked and the mode is
// another: the worker goes on serving the queue.
func (w *Worker) followInbox(ctx context.Context, s *coord.Session, box *inbox) (stays bool) {
	changed, stop := w.q.index.listen()
	defer stop()
	reconcile := time.NewTicker(reconcileEvery)
	defer reconcile.Stop()
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	for {
		wake := soonest(w.keepRegistered(s, box), w.fillFrom(s, box))
		if w.limited() && w.idle() {
			return false
		}
		if w.q.index.mode() != modeDispatch && box.idle() {
			if w.surelyIdle(ctx, box) {
				return true
			}
			wake = soonest(wake, time.Now().Add(retryEvery))
		}
		alarm.Stop()
		if !wake.IsZero() {
			alarm.Reset(max(time.Until(wake), time.Millisecond))
		}
		select {
		case <-box.changed:
		case <-w.freed:
		case <-changed:
		case <-alarm.C:
		case <-reconcile.C:
			w.q.reconcile(s, box.owned())
		case <-s.Done():
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// surelyIdle confirms that the inbox is empty, once the mode is another: then no
// assignment is applied any more, but the last may not show yet. What was assigned
// before the switch is worked off first. Foreign keys in it keep nobody.
func (w *Worker) surelyIdle(ctx context.Context, box *inbox) bool {
	resp, err := w.q.store.Get(ctx, box.prefix, clientv3.WithPrefix())
	return err == nil && !slices.ContainsFunc(resp.Kvs, func(kv *mvccpb.KeyValue) bool { return box.read(kv) != nil })
}

// fillFrom begins as many entries as there are free slots, and gives back those that
// will never get one. What it returns, where it is not zero, is when to look again.
func (w *Worker) fillFrom(s *coord.Session, box *inbox) (wake time.Time) {
	if s.Remaining() <= 0 {
		return time.Time{}
	}
	if w.isTold(s, 0) {
		for _, e := range box.waiting() {
			w.returnEntry(s, box, e, unbegun("the worker takes no more"))
		}
		return time.Time{}
	}
	n, resume := w.room()
	if n > 0 && time.Now().Before(resume) {
		return resume
	}
	for _, e := range box.waiting() {
		if n <= 0 {
			break
		}
		switch began, hung := w.q.index.begin(e.at.record); {
		case hung:
			put := unbegun("an earlier attempt still runs in that worker")
			put.at = time.Now().Add(hungPause)
			w.returnEntry(s, box, e, put)
		case began:
			c := candidate{located: e.at, entry: &entry{located: e.at}}
			if !box.begin(e) {
				w.q.index.leave(c)
				continue
			}
			n--
			w.occupy()
			box.working.Add(1)
			w.wg.Go(func() {
				defer box.working.Done()
				w.workAssigned(s, box, e, c)
			})
		}
	}
	return time.Time{}
}

// workAssigned works one entry to its end, or until its handler is abandoned.
func (w *Worker) workAssigned(s *coord.Session, box *inbox, e *inboxEntry, c candidate) {
	claim, began := w.takeAssigned(s, box, e)
	if claim == nil {
		w.missed()
		w.vacate(c)
		return
	}
	w.begin(claim, c, time.Since(began))
}

// takeAssigned makes a claim of an entry; nil means that nothing came of it.
func (w *Worker) takeAssigned(s *coord.Session, box *inbox, e *inboxEntry) (*Claim, time.Time) {
	began := time.Now()
	claim, err := w.q.claimAssigned(w.hard, s, e.at)
	switch {
	case errors.Is(err, errMissed):
		w.hooks.Missed()
		box.ended(e)
		s.Forget(e.at.record.Nonce)
		return nil, began
	case err != nil:
		if !isSessionOver(err) && w.hard.Err() == nil {
			w.log.Warn("take assigned job", zap.Error(err))
			w.report(err)
		}
		if !box.retry(e) {
			w.giveBackNow(s, box, e, unbegun("the worker stops"))
		}
		return nil, began
	}
	w.report(nil)
	if !box.work(e, claim) {
		claim.over(&coord.FencedError{Key: claim.fence.Key, Wanted: claim.fence.Token})
		w.hooks.Missed()
		return nil, began
	}
	return claim, began
}

// leave ends a session's service of the queue: nothing more is assigned to it, and
// what no handler has begun goes to others at once.
func (w *Worker) leave(s *coord.Session, box *inbox) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if _, err := w.withdraw(s).Wait(ctx); err != nil && s.Err() == nil {
		w.log.Info("unregister worker", zap.Error(err))
	}
	var left []*inboxEntry
	if resp, err := w.q.store.List(ctx, box.prefix); err == nil {
		left = box.close(resp.Kvs)
	} else {
		box.close(nil)
		left = box.waiting()
	}
	var wg sync.WaitGroup
	for _, e := range left {
		if w.q.index.worksOn(e.at.record) {
			continue // another worker of this process shares the session
		}
		wg.Go(func() { w.giveBackNow(s, box, e, unbegun("the worker stops")) })
	}
	wg.Wait()
}

// returnEntry gives an entry back, behind the caller, unless a handler has it.
func (w *Worker) returnEntry(s *coord.Session, box *inbox, e *inboxEntry, ev event) {
	if box.begin(e) {
		w.wg.Go(func() { w.giveBackNow(s, box, e, ev) })
	}
}

func (w *Worker) giveBackNow(s *coord.Session, box *inbox, e *inboxEntry, ev event) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if err := w.q.giveBack(ctx, s, e.at, ev); err != nil {
		w.log.Info("assigned job", zap.Error(err))
		return // the reconciler tries again
	}
	box.ended(e)
}
