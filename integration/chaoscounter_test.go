package integration_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/history"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/inside"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/lane"
)

const (
	chaosLock    = "counter"
	chaosCounter = chaosEffects + "counter"
	chaosOrder   = chaosEffects + "order/"
	chaosNoise   = chaosEffects + "noise/"
)

// written is what writers were told of their writes, by what they wrote. Safe for
// concurrent use.
type written struct {
	mu   sync.Mutex
	told map[string]history.Result
}

func (w *written) tell(what string, err error) {
	result, _ := history.Judge(err)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.told == nil {
		w.told = map[string]history.Result{}
	}
	w.told[what] = result
}

// count increments a counter under a lock until ctx ends: it reads, adds one, and
// writes; and where it does not know what became of a write, it reads again.
func (g *guest) count(ctx context.Context) {
	for n := 0; wait(ctx, time.Duration(20+g.rng.IntN(80))*time.Millisecond); {
		call, cancel := g.hurry(ctx)
		s, err := g.member.Session(call)
		if err != nil {
			cancel()
			continue
		}
		h, err := coord.NewLock(s, chaosLock).Acquire(call)
		cancel()
		if err != nil {
			continue
		}
		for range 1 + g.rng.IntN(4) {
			n++
			g.increment(ctx, h, fmt.Sprint(g.name, "-", n))
		}
		g.release(ctx, h)
	}
}

// increment makes one try; tag is its own.
func (g *guest) increment(ctx context.Context, h *coord.Hold, tag string) {
	call, cancel := g.hurry(ctx)
	defer cancel()
	resp, err := g.client.Get(call, chaosCounter)
	if err != nil {
		return
	}
	at := 0
	if len(resp.Kvs) == 1 {
		at, _ = counted(resp.Kvs[0].Value)
	}
	_, err = h.Commit(call, clientv3.OpPut(chaosCounter, fmt.Sprint(at+1, " ", tag)))
	g.c.counter.tell(tag, err)
	if errors.Is(err, coord.ErrUnknown) {
		g.rec.Reached().Hit("counter:unknown")
	}
}

// writerOf is the guest of a tag.
func writerOf(tag string) string { return tag[:strings.LastIndexByte(tag, '-')+1] }

// counted reads a value of the counter.
func counted(value []byte) (n int, tag string) {
	first, tag, _ := strings.Cut(string(value), " ")
	n, _ = strconv.Atoi(first)
	return n, tag
}

// release gives a hold up, however often that has to be tried: an open hold is the
// caller's.
func (g *guest) release(ctx context.Context, h *coord.Hold) {
	for over := false; !over; {
		call, cancel := g.hurry(ctx)
		err := h.Release(call)
		cancel()
		select {
		case <-h.Done():
			over = true
		default:
			over = err == nil || errors.Is(err, coord.ErrFenced)
		}
	}
}

// saturate is more than what may wait until a second flight goes beside the first.
const saturate = 80

// overwrite writes one key again and again through a committer that is busy, with one
// call after the other, whatever becomes of the one before.
func (g *guest) overwrite(ctx context.Context) {
	next := map[string]int{}
	for wait(ctx, time.Duration(100+g.rng.IntN(400))*time.Millisecond) {
		call, cancel := g.hurry(ctx)
		s, err := g.member.Session(call)
		if err == nil {
			g.overwriteOnce(call, s, next)
		}
		cancel()
	}
}

func (g *guest) overwriteOnce(ctx context.Context, s *coord.Session, next map[string]int) {
	key := chaosOrder + s.ID()
	put := func() (what string, op clientv3.Op) {
		next[key]++
		return fmt.Sprint(s.ID(), " ", next[key]), clientv3.OpPut(key, strconv.Itoa(next[key]))
	}
	for i := range saturate {
		inside.Of(s).Committer().Go(etcdkv.Txn{Then: []clientv3.Op{clientv3.OpPut(fmt.Sprint(chaosNoise, i), key)}, Origin: "noise"})
	}
	pending := map[string]*lane.Pending{}
	for range 3 {
		what, op := put()
		pending[what] = inside.Of(s).Committer().Go(etcdkv.Txn{Then: []clientv3.Op{op}, Origin: "order"})
		for i := range saturate / 2 {
			inside.Of(s).Committer().Go(etcdkv.Txn{Then: []clientv3.Op{clientv3.OpPut(fmt.Sprint(chaosNoise, i), key)}, Origin: "noise"})
		}
	}
	for what, p := range pending {
		_, err := p.Wait(ctx)
		g.c.order.tell(what, err)
	}
	what, op := put()
	_, err := s.Commit(ctx, nil, op)
	g.c.order.tell(what, err)
}

// judgeCounter: no increment is lost that its writer was told of, or that a reader saw.
// One whose outcome was unknown may be overwritten by its own writer, who read before it
// came. What writers were told is true.
func (c *chaos) judgeCounter(t *testing.T, events []history.Event) {
	t.Helper()
	at, last, unseen, seen := 0, "", 0, map[string]int{}
	for _, ev := range events {
		if ev.Key != chaosCounter {
			continue
		}
		n, tag := counted(ev.Value)
		switch {
		case n == at+1:
		case n == at && c.counter.told[last] == history.Unknown && writerOf(last) == writerOf(tag):
			unseen++
		default:
			t.Errorf("counter: at revision %d %s wrote %d over %d of %s", ev.Rev, tag, n, at, last)
		}
		at, last = n, tag
		seen[tag]++
	}
	if want := len(seen) - unseen; at != want {
		t.Errorf("counter: it is at %d, after %d increments that were told or seen", at, want)
	}
	unknown := c.counter.judge(t, "counter", seen)
	t.Logf("counter: %d, by %d writes, %d of them unknown to their writer, of which %d were overwritten unseen", at, len(seen), unknown, unseen)
}

// judgeOrder: a later write of a committer is never overtaken by an earlier one.
func (c *chaos) judgeOrder(t *testing.T, events []history.Event) {
	t.Helper()
	at, seen := map[string]int{}, map[string]int{}
	for _, ev := range events {
		sid, ok := strings.CutPrefix(ev.Key, chaosOrder)
		if !ok {
			continue
		}
		n, _ := strconv.Atoi(string(ev.Value))
		if n <= at[sid] {
			t.Errorf("order: at revision %d session %s wrote %d over %d", ev.Rev, sid, n, at[sid])
		}
		at[sid] = n
		seen[fmt.Sprint(sid, " ", n)]++
	}
	unknown := c.order.judge(t, "order", seen)
	t.Logf("order: %d writes, %d of them unknown to their writer", len(seen), unknown)
}

// judge holds what writers were told against what was written, and returns how much of
// that they did not know.
func (w *written) judge(t *testing.T, name string, seen map[string]int) (unknown int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for what, result := range w.told {
		n := seen[what]
		switch {
		case n > 1:
			t.Errorf("%s: %s was written %d times", name, what, n)
		case result == history.Applied && n == 0:
			t.Errorf("%s: %s was told to be applied, and was not written", name, what)
		case (result == history.NotApplied || result == history.Refused) && n != 0:
			t.Errorf("%s: %s was told to be %s, and was written", name, what, result)
		case result == history.Unknown:
			unknown += n
		}
	}
	return unknown
}

// judgeWaits: a waiter was told of a job that is over, as it was.
func (c *chaos) judgeWaits(t *testing.T, events []history.Event) {
	t.Helper()
	keys, err := keyspace.New(chaosRoot)
	if err != nil {
		t.Fatal(err)
	}
	over := map[string]bool{} // ids with the revisions at which they were over
	q := keys.Queue(chaosQueue)
	for _, ev := range events {
		if p, ok := keys.Parse(ev.Key); ok && !ev.Delete && (ev.Key == q.Done(p.ID) || ev.Key == q.Dead(p.ID)) {
			over[fmt.Sprint(p.ID, " ", ev.Rev)] = true
		}
	}
	for _, w := range c.told {
		j := w.job
		if w.wanted != "" && w.wanted != j.Born {
			t.Errorf("wait: job %s, born %s, was waited for, and the one born %s was told of", j.ID, w.wanted, j.Born)
		}
		if j.State.Live() || !over[fmt.Sprint(j.ID, " ", j.Revision)] {
			t.Errorf("wait: job %s, born %s, state %s, revision %d: no job was over so", j.ID, j.Born, j.State, j.Revision)
		}
	}
}
