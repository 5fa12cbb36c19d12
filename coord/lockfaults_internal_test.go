package coord

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// writesOf names what the units of a lane's Txn write of a lock: "put slot",
// "delete slot", "put entry", "delete entry".
func writesOf(t etcdkv.Txn, keys keyspace.ClaimKeys) string {
	var b strings.Builder
	for _, op := range t.Then {
		if !op.IsTxn() {
			continue
		}
		_, then, _ := op.Txn()
		for _, w := range then {
			key, verb := string(w.KeyBytes()), "put"
			if w.IsDelete() {
				verb = "delete"
			}
			switch {
			case key == keys.Only:
				b.WriteString(verb + " slot,")
			case strings.HasPrefix(key, keys.Wait):
				b.WriteString(verb + " entry,")
			}
		}
	}
	return b.String()
}

// faultsAt plans faults for the Txns that write such things of the lock, in order,
// and in one lane: the repeats of another session's Txn must not meet them.
func faultsAt(w *world, keys keyspace.ClaimKeys, writes string, list ...fate) {
	n, lane := 0, ""
	w.planBy(func(_ int, t etcdkv.Txn) fate {
		if got := writesOf(t, keys); got != writes || n >= len(list) {
			return fate{}
		}
		key := string(t.Then[0].KeyBytes())
		if lane == "" {
			lane = key
		}
		if key != lane {
			return fate{}
		}
		n++
		return list[n-1]
	})
}

// line is a lock that several sessions, whose writes meet faults, stand in line
// for.
type line struct {
	*world
	t    *testing.T
	keys keyspace.ClaimKeys
}

func newLine(t *testing.T) *line {
	w := newWorld(t)
	return &line{world: w, t: t, keys: w.store.Keys().LockKeys("l")}
}

// acquires starts to acquire; the channel gets the hold.
func (l *line) acquires(ctx context.Context, s *Session) <-chan *Hold {
	got := make(chan *Hold, 1)
	go func() {
		h, err := NewLock(s, "l").Acquire(ctx)
		if err != nil && ctx.Err() == nil {
			l.t.Errorf("acquire: %v", err)
		}
		got <- h
	}()
	return got
}

// wants blocks until the lock is as wanted: owner, then waiters, by session.
func (l *line) wants(owner *Session, waiters ...*Session) {
	l.t.Helper()
	want := fmt.Sprint(sidOf(owner))
	for _, s := range waiters {
		want += " " + s.id
	}
	got := ""
	for ctx := within(l.t); ; {
		st, err := LockState(ctx, l.store, "l")
		if ctx.Err() != nil {
			l.t.Fatalf("the lock is %q, want %q", got, want)
		}
		if got = strings.Join(append([]string{st.Owner}, st.Waiters...), " "); err == nil && got == want {
			return
		}
	}
}

func sidOf(s *Session) string {
	if s == nil {
		return ""
	}
	return s.id
}

// nothingLeft checks that no claim, entry or registration is left behind, now and
// when late originals have arrived.
func (l *line) nothingLeft(sessions ...*Session) {
	l.t.Helper()
	l.wants(nil)
	for _, s := range sessions {
		select {
		case <-s.book.Drained():
		case <-within(l.t).Done():
			l.t.Errorf("session %s knows %d claims, want none", s.id, s.book.Len())
		}
	}
	l.deliver(l.t)
	resp, err := l.client.Get(within(l.t), l.store.Keys().Locks(), clientv3.WithPrefix())
	if err != nil || resp.Count != 0 {
		l.t.Errorf("left behind: %v %v", resp.Kvs, err)
	}
}

// The life of a lock with each step's answers lost in turn, in every way: what
// becomes of it is exact, nobody is wedged, and nothing is left behind.
func TestSurvives_13_LostAnswersAtEveryStepOfALock(t *testing.T) {
	steps := []string{"take", "enqueue", "withdraw", "transfer", "release to a waiter", "take from the dead", "release"}
	for _, loss := range lossy {
		for at, name := range steps {
			t.Run(loss.name+" at "+name, func(t *testing.T) {
				t.Parallel()
				l := newLine(t)
				ctx := within(t)
				plan := func(step int, writes string) {
					l.deliver(t)
					l.planBy(nil)
					if step == at {
						faultsAt(l.world, l.keys, writes, loss.faults...)
					}
				}
				a, b, c, d := sessionIn(t, l.world), sessionIn(t, l.world), sessionIn(t, l.world), sessionIn(t, l.world)
				plan(0, "put slot,")
				h := <-l.acquires(ctx, a)
				l.wants(a)
				plan(1, "put entry,")
				second := l.acquires(ctx, b)
				l.wants(a, b)
				quits, quit := context.WithCancel(ctx)
				third := l.acquires(quits, d)
				l.wants(a, b, d)
				plan(2, "delete entry,")
				quit()
				<-third
				l.wants(a, b)
				third = l.acquires(ctx, c)
				l.wants(a, b, c)
				plan(3, "put slot,delete entry,")
				wantErr(t, h.Transfer(ctx, c.id), nil)
				h = <-third
				l.wants(c, b)
				plan(4, "put slot,delete entry,")
				wantErr(t, h.Release(ctx), nil)
				h = <-second
				l.wants(b)
				last := l.acquires(ctx, d)
				l.wants(b, d)
				plan(5, "put slot,delete entry,")
				if _, err := l.client.Revoke(ctx, b.lease); err != nil {
					t.Fatal(err)
				}
				old := h
				h = <-last
				l.wants(d)
				wantErr(t, old.Release(ctx), ErrFenced)
				plan(6, "delete slot,")
				wantErr(t, h.Release(ctx), nil)
				l.nothingLeft(a, b, c, d)
			})
		}
	}
}

// Whoever gives up while an answer is on its way is told at once, and what the
// answer would have told is undone behind.
func TestSurvives_13_GivingUpInTheMomentOfEachStep(t *testing.T) {
	for _, tc := range []struct{ name, writes string }{
		{"take", "put slot,"}, {"enqueue", "put entry,"}, {"take by the first in line", "put slot,delete entry,"},
	} {
		for _, sent := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s sent %v", tc.name, sent), func(t *testing.T) {
				t.Parallel()
				l := newLine(t)
				a, b := sessionIn(t, l.world), sessionIn(t, l.world)
				ctx, quit := context.WithCancel(within(t))
				defer quit()
				var h *Hold
				if tc.name != "take" {
					h = <-l.acquires(ctx, a)
				}
				arrived, gate := l.stuckAt(tc.writes, sent)
				got := l.acquires(ctx, b)
				if tc.writes == "put slot,delete entry," {
					l.wants(a, b)
					if _, err := l.client.Revoke(within(t), a.lease); err != nil {
						t.Fatal(err)
					}
				}
				<-arrived
				quit()
				if <-got != nil {
					t.Error("acquired although given up")
				}
				close(gate)
				if tc.name == "enqueue" {
					l.wants(a)
					wantErr(t, h.Release(within(t)), nil)
				}
				l.nothingLeft(b)
			})
		}
	}
}

// A waiter withdraws in the moment in which the claim is handed over to it: it gives
// it up, and the next one has it.
func TestWithdrawingInTheMomentOfTheHandOver(t *testing.T) {
	for _, sent := range []bool{true, false} {
		t.Run(fmt.Sprintf("sent %v", sent), func(t *testing.T) {
			t.Parallel()
			l := newLine(t)
			a, b, c := sessionIn(t, l.world), sessionIn(t, l.world), sessionIn(t, l.world)
			h := <-l.acquires(within(t), a)
			ctx, quit := context.WithCancel(within(t))
			second := l.acquires(ctx, b)
			l.wants(a, b)
			third := l.acquires(within(t), c)
			l.wants(a, b, c)
			arrived, gate := l.stuckAt("put slot,delete entry,", sent)
			released := make(chan error, 1)
			go func() { released <- h.Release(within(t)) }()
			<-arrived
			quit()
			if h := <-second; h != nil { // it learned of it just before
				wantErr(t, h.Release(within(t)), nil)
			}
			close(gate)
			wantErr(t, <-released, nil)
			h = <-third
			l.wants(c)
			wantErr(t, h.Release(within(t)), nil)
			l.nothingLeft(a, b, c)
		})
	}
}

// stuckAt keeps the first Txn that writes such things on its way, or its answer,
// until gate is closed; arrived is closed when it is stuck.
func (l *line) stuckAt(writes string, sent bool) (arrived, gate chan struct{}) {
	arrived, gate = make(chan struct{}), make(chan struct{})
	stuck := false
	l.planBy(func(_ int, t etcdkv.Txn) fate {
		switch {
		case stuck || writesOf(t, l.keys) != writes:
			return fate{}
		case sent:
			stuck = true
			return fate{then: func() { close(arrived); <-gate }}
		}
		stuck = true
		close(arrived)
		return fate{hold: gate}
	})
	return arrived, gate
}

// A release whose caller gives up goes on behind, and a second one joins it.
func TestReleaseGoesOnBehindItsCaller(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	s := sessionIn(t, l.world)
	h := <-l.acquires(within(t), s)
	ctx, quit := context.WithCancel(within(t))
	arrived, gate := l.stuckAt("delete slot,", true)
	done := make(chan error, 1)
	go func() { done <- h.Release(ctx) }()
	<-arrived
	quit()
	err := <-done
	wantErr(t, err, ErrUnknown)
	wantErr(t, err, context.Canceled)
	close(gate)
	wantErr(t, h.Release(within(t)), nil)
	wantErr(t, context.Cause(h.life), ErrClosed)
	l.nothingLeft(s)
}

// A transfer that is refused leaves the hold as it was, also for a release that
// came meanwhile.
func TestReleaseDuringARefusedTransfer(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	s := sessionIn(t, l.world)
	h := <-l.acquires(within(t), s)
	reading, gate := make(chan struct{}, 8), make(chan struct{})
	l.mu.Lock()
	l.readPlan = func(int) error { reading <- struct{}{}; <-gate; return nil }
	l.mu.Unlock()
	transferred, released := make(chan error, 1), make(chan error, 1)
	go func() { transferred <- h.Transfer(within(t), "nobody.0000000000000001") }()
	<-reading
	go func() { released <- h.Release(within(t)) }()
	close(gate)
	wantErr(t, <-transferred, ErrRefused)
	wantErr(t, <-released, nil)
	l.nothingLeft(s)
}

// The holder does not know any more whether its release was applied: its key has
// changed, and that ends the hold.
func TestHoldOfUnknownReleaseEnds(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	s := sessionIn(t, l.world)
	h := <-l.acquires(within(t), s)
	faultsAt(l.world, l.keys, "delete slot,", fate{lose: errLost}, fate{refuse: errLost}, fate{refuse: errLost})
	if err := h.Release(within(t)); err != nil && !errors.Is(err, ErrFenced) {
		t.Errorf("release: %v", err)
	}
	select {
	case <-h.Done():
	case <-within(t).Done():
		t.Error("the hold never ended")
	}
	l.nothingLeft(s)
}

// A commit under a lock writes other keys than the lock's: whatever becomes of its
// answers, it happens once.
func TestCommitOfAHoldHappensOnce(t *testing.T) {
	for _, loss := range lossy {
		t.Run(loss.name, func(t *testing.T) {
			t.Parallel()
			l := newLine(t)
			s := sessionIn(t, l.world)
			h := <-l.acquires(within(t), s)
			for n := int64(1); n <= 3; n++ {
				l.faults(loss.faults...)
				if _, err := h.Commit(within(t), clientv3.OpPut(l.data+"effect", "")); err != nil {
					t.Fatal(err)
				}
				l.deliver(t)
				wantVersions(t, l.world, map[string]int64{"effect": n})
			}
			l.planBy(nil)
			wantErr(t, h.Release(within(t)), nil)
			l.faults(loss.faults...)
			_, err := h.Commit(within(t), clientv3.OpPut(l.data+"effect", ""))
			wantErr(t, err, ErrFenced)
			l.deliver(t)
			wantVersions(t, l.world, map[string]int64{"effect": 3})
			l.planBy(nil)
			l.nothingLeft(s)
		})
	}
}
