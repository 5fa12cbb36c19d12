package workqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/coord"
)

// inbox is what a dispatcher assigned to one session, and all that its worker
// watches while the queue is in mode dispatch. An entry's value is the claimed
// record, and its revision the token. Level-triggered: an entry that is there and
// not begun is begun, whenever it came. Safe for concurrent use.
type inbox struct {
	prefix string

	mu      sync.Mutex
	entries map[string]*inboxEntry // by key
	changed chan struct{}
}

// inboxEntry is one assigned job.
type inboxEntry struct {
	key   string
	at    located
	begun bool
	claim *Claim    // once begun
	over  time.Time // when the worker was done with it, although it is still there
}

var _ coord.Sink = (*inbox)(nil)

func newInbox(prefix string) *inbox {
	return &inbox{prefix: prefix, entries: map[string]*inboxEntry{}, changed: make(chan struct{}, 1)}
}

// Reset makes the inbox hold exactly these entries.
func (b *inbox) Reset(kvs []*mvccpb.KeyValue, rev int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := map[string]struct{}{}
	for _, kv := range kvs {
		seen[string(kv.Key)] = struct{}{}
		b.put(kv)
	}
	for key := range b.entries {
		if _, ok := seen[key]; !ok {
			b.drop(key, rev)
		}
	}
	b.wake()
}

// Apply follows the inbox.
func (b *inbox) Apply(events []*clientv3.Event, _ int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, ev := range events {
		if ev.Type == clientv3.EventTypePut {
			b.put(ev.Kv)
		} else {
			b.drop(string(ev.Kv.Key), ev.Kv.ModRevision)
		}
	}
	if len(events) > 0 {
		b.wake()
	}
}

func (b *inbox) put(kv *mvccpb.KeyValue) {
	key := string(kv.Key)
	if old := b.entries[key]; old != nil {
		if old.at.rev == kv.ModRevision {
			return
		}
		b.drop(key, kv.ModRevision) // assigned anew: the earlier attempt is over
	}
	r, err := decodeRecord(kv.Value)
	if err != nil || !r.claimed() {
		return // foreign: it blocks nothing, and doctor shows it
	}
	b.entries[key] = &inboxEntry{key: key, at: located{record: r, where: inJobs, rev: kv.ModRevision}}
}

// drop takes an entry out: its job is settled, or was taken away, and then its
// handler must stop.
func (b *inbox) drop(key string, rev int64) {
	e := b.entries[key]
	delete(b.entries, key)
	if e != nil && e.claim != nil {
		e.claim.takenFromInbox(rev)
	}
}

func (b *inbox) wake() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// next returns up to n entries to begin, oldest first, and marks them.
func (b *inbox) next(n int, skip func(id string) bool) []*inboxEntry {
	b.mu.Lock()
	defer b.mu.Unlock()
	var waiting []*inboxEntry
	for _, e := range b.entries {
		if !e.begun && !skip(e.at.record.ID) {
			waiting = append(waiting, e)
		}
	}
	slices.SortFunc(waiting, func(x, y *inboxEntry) int {
		return cmp.Or(cmp.Compare(x.at.rev, y.at.rev), cmp.Compare(x.key, y.key))
	})
	waiting = waiting[:min(n, len(waiting))]
	for _, e := range waiting {
		e.begun, e.over = true, time.Time{}
	}
	return waiting
}

// work notes the claim under which an entry is worked; false means that the entry
// is gone already.
func (b *inbox) work(e *inboxEntry, c *Claim) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.claim = c
	return b.entries[e.key] == e
}

// idle tells whether the inbox is empty.
func (b *inbox) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.entries) == 0
}

// claimAssigned makes a claim of an inbox entry, and reads what lies beside it.
func (q *Queue) claimAssigned(ctx context.Context, s *coord.Session, at located) (*Claim, error) {
	c := q.newClaim(s, at)
	if at.record.Beside > 0 || at.record.Attempt > 1 {
		resp, err := q.store.Read(ctx, clientv3.OpGet(q.keys.Payload(at.record.ID)), clientv3.OpGet(q.keys.Progress(at.record.ID)))
		if err != nil {
			return nil, fmt.Errorf("read job %s: %w", at.record.ID, err)
		}
		if kvs := resp.Responses[0].GetResponseRange().Kvs; len(kvs) == 1 && at.record.Beside > 0 {
			c.job.Payload = kvs[0].Value
		}
		if kvs := resp.Responses[1].GetResponseRange().Kvs; len(kvs) == 1 {
			c.notes.load(kvs[0], c.job)
		}
	}
	if err := s.Adopt(at.record.Nonce, c.giveBack); err != nil {
		return nil, err
	}
	return c, nil
}

// takenFromInbox ends a claim whose inbox entry vanished. When that was not the
// worker's own doing, somebody took the job away: etcd says whether it was
// cancelled.
func (c *Claim) takenFromInbox(rev int64) {
	if c.isSettled() {
		return
	}
	c.q.behind(func(ctx context.Context) {
		cause := error(&coord.FencedError{Key: c.fence.Key, Wanted: c.fence.Token, Current: coord.Token(rev)})
		resp, err := c.q.store.Get(ctx, c.q.keys.Done(c.job.ID))
		if err == nil && len(resp.Kvs) == 1 {
			if r, err := decodeRecord(resp.Kvs[0].Value); err == nil && r.Outcome == outcomeCancelled && r.Born == c.job.Born {
				cause = ErrCancelled
			}
		}
		c.end(cause)
	})
}

// serveInbox works what is assigned to the session, until the session, ctx, or the
// mode is over.
func (w *Worker) serveInbox(ctx context.Context, s *coord.Session) {
	box := newInbox(w.q.keys.Inbox(s.ID()))
	m := w.q.store.Mirror(w.q.cfg.Mirror)
	m.Add(box.prefix, box)
	mirrorCtx, cancel := context.WithCancel(context.Background())
	var mirror sync.WaitGroup
	mirror.Go(func() { _ = m.Run(mirrorCtx) })
	defer mirror.Wait()
	defer cancel()
	defer w.giveBackWaiting(s, box)
	changed, stop := w.q.index.listen()
	defer stop()
	reconcile := time.NewTicker(reconcileEvery)
	defer reconcile.Stop()
	for !(w.limited() && w.idle()) {
		alarm := w.fillFrom(s, box)
		if w.q.index.mode() != modeDispatch && box.idle() {
			return // what was assigned before the switch is worked off first
		}
		select {
		case <-box.changed:
		case <-w.free:
		case <-changed:
		case <-alarm:
		case <-reconcile.C:
			w.reconcileInbox(s, box)
		case <-s.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// fillFrom begins as many entries as there are free slots. The channel that it
// returns, where it is not nil, tells when to look again.
func (w *Worker) fillFrom(s *coord.Session, box *inbox) <-chan time.Time {
	n, resume := w.room()
	if n <= 0 || s.Remaining() <= 0 {
		return nil
	}
	if wait := time.Until(resume); wait > 0 {
		return time.After(wait)
	}
	for _, e := range box.next(n, w.q.index.runsHere) {
		w.occupy()
		c := candidate{located: e.at, entry: &entry{located: e.at}}
		w.q.index.begin(e.at.record)
		w.wg.Go(func() {
			if w.workAssigned(s, box, e, c) {
				box.finished(e)
				w.vacate(c)
			}
		})
	}
	return nil
}

// reconcileInbox gives back jobs that were worked and are still in the inbox: etcd
// refused their closing write itself. Without it they would stay claimed by a live
// session that does not run them.
func (w *Worker) reconcileInbox(s *coord.Session, box *inbox) {
	for _, e := range box.leftovers(2 * reconcileEvery) {
		w.giveBack(s, e, "its closing write failed")
	}
}

// finished notes that an entry was worked; it goes away with the closing write.
func (b *inbox) finished(e *inboxEntry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.over = time.Now()
}

// leftovers returns entries that are still there that long after they were worked,
// once per that time.
func (b *inbox) leftovers(after time.Duration) (left []*inboxEntry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.entries {
		if e.begun && !e.over.IsZero() && time.Since(e.over) > after {
			e.over = time.Now()
			left = append(left, e)
		}
	}
	return left
}

// workAssigned works one entry to its end. False means that its handler still
// runs.
func (w *Worker) workAssigned(s *coord.Session, box *inbox, e *inboxEntry, c candidate) (over bool) {
	began := time.Now()
	claim, err := w.q.claimAssigned(w.hard, s, e.at)
	if err != nil {
		w.missed()
		if !isSessionOver(err) && w.hard.Err() == nil {
			w.log.Warn("take assigned job", zap.Error(err))
			w.report(err)
		}
		box.retry(e)
		return true
	}
	w.report(nil)
	if !box.work(e, claim) {
		claim.over(&coord.FencedError{Key: claim.fence.Key, Wanted: claim.fence.Token})
		w.missed()
		w.hooks.Missed()
		return true
	}
	w.hooks.Claimed(claim.job, time.Since(began))
	return w.attend(claim, c)
}

// retry lets an entry be begun again.
func (b *inbox) retry(e *inboxEntry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.begun = false
}

// giveBackWaiting releases what was assigned and not begun, so that the dispatcher
// gives it to somebody else at once.
func (w *Worker) giveBackWaiting(s *coord.Session, box *inbox) {
	for _, e := range box.next(math.MaxInt, func(string) bool { return false }) {
		w.giveBack(s, e, "the worker stops")
	}
}

func (w *Worker) giveBack(s *coord.Session, e *inboxEntry, why string) {
	w.q.behind(func(ctx context.Context) {
		if err := w.q.releaseStray(ctx, s, e.at, why); err != nil && !errors.Is(err, coord.ErrFenced) {
			w.log.Info("give back an assigned job", zap.String("job", e.at.record.ID), zap.Error(err))
		}
	})
}
