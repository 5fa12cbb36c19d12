package workqueue

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/inside"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/mirror"
	"github.com/leasekit/leasekit/internal/queue"
	"github.com/leasekit/leasekit/internal/ready"
)

const (
	// leaveTimeout bounds what a worker does to leave a queue in order: what it cannot
	// give back in that time ends with its session.
	leaveTimeout = 3 * time.Second
	// hungPause is for how long a job is put off that came back to a worker in which a
	// handler of an earlier attempt still runs. Dispatchers prefer others for it.
	hungPause = time.Second
)

// serveInbox works what is assigned to the session, until the session, ctx, or the
// mode is over.
func (w *Worker) serveInbox(ctx context.Context, s *coord.Session, r *registration) {
	box := newInbox(w.q, s)
	m := mirror.New(w.q.core.Store, w.q.cfg.Quiet, w.q.cfg.ScanEvery)
	m.Add(box.prefix, box)
	m.Add(r.key, ownEntry{box})
	life, cancel := context.WithCancel(context.Background())
	w.wg.Go(func() { _ = m.Run(life) })
	w.followInbox(ctx, r, box)
	box.close()
	// Joined by drain. What still runs must hear of it when its job is taken away, so
	// the inbox is watched until nothing does.
	w.wg.Go(func() {
		defer cancel()
		box.working.Wait()
	})
}

// followInbox begins what comes, until all was worked and the mode is another, or the
// worker or its session ends: then what nobody began is given back behind it.
func (w *Worker) followInbox(ctx context.Context, r *registration, box *inbox) {
	s := r.s
	changed, stop := w.q.core.Index.Listen()
	defer stop()
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	for {
		wake := ready.Soonest(w.keepRegistered(r, r.isTold(w.slots.capacity(), box.listing())), w.fillFrom(r, box))
		if w.slots.limited() && w.slots.idle() {
			return
		}
		if w.q.core.Index.Mode() != ModeDispatch && box.idle() {
			if w.surelyIdle(ctx, box) && box.closeIdle() {
				return
			}
			wake = ready.Soonest(wake, time.Now().Add(ready.RetryEvery))
		}
		alarm.Stop()
		if !wake.IsZero() {
			alarm.Reset(max(time.Until(wake), time.Millisecond))
		}
		select {
		case <-box.changed:
		case <-w.slots.freed:
		case <-changed:
		case <-alarm.C:
		case <-s.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// surelyIdle confirms that the inbox is empty, once the mode is another: then no
// assignment is applied any more, but the last may not show yet. What was assigned
// before the switch is worked off first. Foreign keys in it keep nobody.
func (w *Worker) surelyIdle(ctx context.Context, box *inbox) bool {
	resp, err := w.q.core.Store.Get(ctx, box.prefix, clientv3.WithPrefix())
	return err == nil && !slices.ContainsFunc(resp.Kvs, func(kv *mvccpb.KeyValue) bool { return box.read(kv) != nil })
}

// fillFrom begins as many entries as there are free slots, and gives back those that
// will never get one. What it returns, where it is not zero, is when to look again.
func (w *Worker) fillFrom(r *registration, box *inbox) (wake time.Time) {
	s := r.s
	if s.Remaining() <= 0 {
		return time.Time{}
	}
	if r.isTold(0, 0) {
		for _, e := range box.waiting() {
			w.returnEntry(s, box, e, unbegun("the worker takes no more"))
		}
		return time.Time{}
	}
	n, resume := w.slots.room()
	if n > 0 && time.Now().Before(resume) {
		return resume
	}
	for _, e := range box.waiting() {
		if n <= 0 {
			break
		}
		switch began, hung := w.q.core.Index.Begin(e.at.Record); {
		case hung:
			put := unbegun("an earlier attempt still runs in that worker")
			put.At = time.Now().Add(hungPause)
			w.returnEntry(s, box, e, put)
		case began:
			c := ready.AssignedTo(e.at)
			if !box.begin(e) {
				w.q.core.Index.Leave(c)
				continue
			}
			n--
			w.slots.occupy()
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
func (w *Worker) workAssigned(s *coord.Session, box *inbox, e *inboxEntry, c ready.Candidate) {
	claim, began := w.takeAssigned(s, box, e)
	if claim == nil {
		w.slots.missed()
		w.vacate(c)
		return
	}
	w.begin(claim, c, time.Since(began))
}

// takeAssigned makes a claim of an entry; nil means that nothing came of it.
func (w *Worker) takeAssigned(s *coord.Session, box *inbox, e *inboxEntry) (*Claim, time.Time) {
	began := time.Now()
	claim, err := w.q.claimAssigned(w.hard, s, e.at, e.listed)
	switch {
	case errors.Is(err, queue.ErrMissed):
		w.hooks.Missed()
		inside.Of(s).Book().Untrack(e.at.Record.Nonce)
		return nil, began
	case err != nil:
		if !isSessionOver(err) && w.hard.Err() == nil {
			w.log.Warn("take assigned job", zap.Error(err))
			w.slots.report(err)
		}
		if !box.retry(e) {
			w.giveBack(s, e, unbegun("the worker stops"))
		}
		return nil, began
	}
	w.slots.report(nil)
	if !box.work(e, claim) {
		claim.over(&coord.FencedError{Key: claim.fence.Key, Wanted: claim.fence.Token})
		w.hooks.Missed()
		return nil, began
	}
	return claim, began
}

// returnEntry gives an entry back, behind the caller, unless a handler has it.
func (w *Worker) returnEntry(s *coord.Session, box *inbox, e *inboxEntry, ev job.Event) {
	if box.begin(e) {
		w.giveBack(s, e, ev)
	}
}

// giveBack leaves an entry to the session's book.
func (w *Worker) giveBack(s *coord.Session, e *inboxEntry, ev job.Event) {
	r := e.at.Record
	if inside.Of(s).Book().Replace(r.Nonce, func(ctx context.Context) error { return w.q.giveBack(ctx, s, r.ID, r.Nonce, ev) }) {
		inside.Of(s).Book().Settle(r.Nonce)
	}
}
