package lane

import (
	"context"
	"errors"
	"fmt"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
	"github.com/leasekit/leasekit/internal/faultkv"
)

// twoWrites is a run in which one key is written twice: the second write is handed over
// once the first was sent. The zero value has callers that stay.
type twoWrites struct {
	leaves bool // the first caller may leave
	waits  int  // how often time goes by without an answer
	// inOrder are writes of other keys that keep their order.
	inOrder bool
	// deletes is that the first write only deletes, under a guard, while nobody waits:
	// somebody may, as often as waiters tells.
	deletes bool
	waiters int
	// careless takes the order of writes out of the committer.
	careless bool

	told  error // the first caller, who has left
	gone  bool
	fixed map[string]int64 // the revision when a write was said to change nothing any more
}

// writes are what is committed: their values tell them apart.
func (w *twoWrites) writes(r *laneRun) (first, second etcdkv.Txn) {
	first, second = faultkv.PutTxn(r.data+"k", "first"), faultkv.PutTxn(r.data+"k", "second")
	if w.deletes {
		r.other(clientv3.OpPut(r.data+"k", "before"))
		first = etcdkv.Txn{
			If:   append(etcdkv.GuardOf(r.data+"k", r.b.etcd.Rev(), ""), clientv3.Compare(clientv3.CreateRevision(r.data+"waiter"), "=", 0)),
			Then: []clientv3.Op{clientv3.OpDelete(r.data + "k")},
			Else: []clientv3.Op{clientv3.OpGet(r.data + "k")},
		}
	}
	if w.inOrder {
		second = faultkv.PutTxn(r.data+"other", "second")
		first.InOrder, second.InOrder = true, true
	}
	return first, second
}

func (w *twoWrites) run(r *laneRun) error {
	first, second := w.writes(r)
	r.pending["first"] = r.c.Go(first)
	synctest.Wait()
	if w.careless {
		r.c.mu.Lock()
		r.c.lanes[0].open.clear()
		r.c.mu.Unlock()
	}
	r.pending["second"] = r.c.Go(second)
	if err := r.play(func() bool { w.note(r); return false }); err != nil {
		return err
	}
	return w.judge(r)
}

// note keeps what is said to be fixed once all is settled.
func (w *twoWrites) note(r *laneRun) {
	w.fixed = map[string]int64{}
	for name, p := range r.pending {
		select {
		case <-p.Fixed():
			if !p.isLate() {
				w.fixed[name] = r.b.etcd.Rev()
			}
		default:
		}
	}
}

// moves are what happens beside the requests.
func (w *twoWrites) moves(r *laneRun) (moves []move) {
	if w == nil {
		return nil
	}
	if w.leaves && !w.gone && !(*unit)(r.pending["first"]).isSettled() {
		moves = append(moves, move{"the first caller leaves", func() { w.leave(r) }})
	}
	if w.waits > 0 {
		moves = append(moves, move{"time goes by", func() { w.waits--; <-time.After(slowFlight + time.Millisecond) }})
	}
	if w.waiters > 0 {
		op, what := clientv3.OpPut(r.data+"waiter", ""), "somebody begins to wait"
		if r.b.etcd.Lookup(r.data+"waiter") != nil {
			op, what = clientv3.OpDelete(r.data+"waiter"), "nobody waits any more"
		}
		moves = append(moves, move{what, func() { w.waiters--; r.other(op) }})
	}
	return moves
}

func (w *twoWrites) leave(r *laneRun) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, w.told = r.pending["first"].Wait(ctx)
	w.gone = true
}

// judge holds that the later write is never overtaken, and that each caller's answer is
// true.
func (w *twoWrites) judge(r *laneRun) error {
	at, err := w.applied(r)
	if err != nil {
		return err
	}
	for name, fixed := range w.fixed {
		if at[name] > fixed {
			return fmt.Errorf("the %s write was applied at %d, after it was said at %d that it can change nothing any more", name, at[name], fixed)
		}
	}
	if at["first"] > 0 && at["second"] > 0 && at["first"] > at["second"] {
		return fmt.Errorf("the first write, at %d, overtakes the second one, at %d", at["first"], at["second"])
	}
	if w.gone && !errors.Is(w.told, fault.ErrUnknown) && at["first"] > 0 {
		return fmt.Errorf("the first write was applied, its caller, who left, is told %w", w.told)
	}
	for name, p := range r.pending {
		res, err := p.Result()
		switch {
		case errors.Is(err, fault.ErrUnknown):
			if !r.excused && !(w.deletes && name == "first") { // sent without a lane, nobody knows
				return fmt.Errorf("the outcome of the %s write is not known, although etcd knows: %w", name, err)
			}
		case err != nil && at[name] > 0:
			return fmt.Errorf("the %s write was applied, its caller is told %w", name, err)
		case err == nil && !res.Succeeded && at[name] == 0 && w.deletes && name == "first": // its guard did not hold
		case err == nil && (!res.Succeeded || res.Revision != at[name]):
			return fmt.Errorf("the %s write was applied at %d, its caller is told %v at %d", name, at[name], res.Succeeded, res.Revision)
		}
	}
	return nil
}

// applied is the revision at which each write was applied.
func (w *twoWrites) applied(r *laneRun) (map[string]int64, error) {
	at := map[string]int64{}
	events, err := r.b.etcd.Events([]byte(r.data), []byte(r.data+"~"), 1)
	for _, ev := range events {
		name := string(ev.Kv.Value)
		if w.deletes && ev.Type == clientv3.EventTypeDelete && string(ev.Kv.Key) == r.data+"k" {
			name = "first"
		}
		if r.pending[name] == nil {
			continue
		}
		if at[name] > 0 {
			return nil, fmt.Errorf("the %s write was applied at %d and at %d", name, at[name], ev.Kv.ModRevision)
		}
		at[name] = ev.Kv.ModRevision
	}
	return at, err
}
