package coord

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/faultkv"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/line"
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
func faultsAt(w *faultkv.World, keys keyspace.ClaimKeys, writes string, list ...faultkv.Fate) {
	n, lane := 0, ""
	w.PlanBy(func(_ int, t etcdkv.Txn) faultkv.Fate {
		if got := writesOf(t, keys); got != writes || n >= len(list) {
			return faultkv.Fate{}
		}
		key := string(t.Then[0].KeyBytes())
		if lane == "" {
			lane = key
		}
		if key != lane {
			return faultkv.Fate{}
		}
		n++
		return list[n-1]
	})
}

// lockWorld is a lock that several sessions, whose writes meet faults, stand in line
// for.
type lockWorld struct {
	*faultkv.World
	t    *testing.T
	keys keyspace.ClaimKeys
}

func newLockWorld(t *testing.T) *lockWorld {
	w := faultkv.NewWorld(t)
	return &lockWorld{World: w, t: t, keys: w.Store.Keys().LockKeys("l")}
}

// acquires starts to acquire; the channel gets the hold.
func (l *lockWorld) acquires(ctx context.Context, s *Session) <-chan *Hold {
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
func (l *lockWorld) wants(owner *Session, waiters ...*Session) {
	l.t.Helper()
	want := fmt.Sprint(sidOf(owner))
	for _, s := range waiters {
		want += " " + s.id
	}
	got := ""
	for ctx := faultkv.Within(l.t); ; {
		st, err := line.LockState(ctx, l.Store, "l")
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
func (l *lockWorld) nothingLeft(sessions ...*Session) {
	l.t.Helper()
	l.wants(nil)
	for _, s := range sessions {
		select {
		case <-s.book.Drained():
		case <-faultkv.Within(l.t).Done():
			l.t.Errorf("session %s knows %d claims, want none", s.id, s.book.Len())
		}
	}
	l.Deliver(l.t)
	resp, err := l.Client.Get(faultkv.Within(l.t), l.Store.Keys().Locks(), clientv3.WithPrefix())
	if err != nil || resp.Count != 0 {
		l.t.Errorf("left behind: %v %v", resp.Kvs, err)
	}
}

// The life of a lock with each step's answers lost in turn, in every way: what
// becomes of it is exact, nobody is wedged, and nothing is left behind.
func TestSurvives_13_LostAnswersAtEveryStepOfALock(t *testing.T) {
	steps := []string{"take", "enqueue", "withdraw", "transfer", "release to a waiter", "take from the dead", "release"}
	for _, loss := range faultkv.Lossy {
		for at, name := range steps {
			t.Run(loss.Name+" at "+name, func(t *testing.T) {
				t.Parallel()
				l := newLockWorld(t)
				ctx := faultkv.Within(t)
				plan := func(step int, writes string) {
					l.Deliver(t)
					l.PlanBy(nil)
					if step == at {
						faultsAt(l.World, l.keys, writes, loss.Faults...)
					}
				}
				a, b, c, d := sessionIn(t, l.World), sessionIn(t, l.World), sessionIn(t, l.World), sessionIn(t, l.World)
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
				faultkv.WantErr(t, h.Transfer(ctx, c.id), nil)
				h = <-third
				l.wants(c, b)
				plan(4, "put slot,delete entry,")
				faultkv.WantErr(t, h.Release(ctx), nil)
				h = <-second
				l.wants(b)
				last := l.acquires(ctx, d)
				l.wants(b, d)
				plan(5, "put slot,delete entry,")
				if _, err := l.Client.Revoke(ctx, b.lease); err != nil {
					t.Fatal(err)
				}
				old := h
				h = <-last
				l.wants(d)
				faultkv.WantErr(t, old.Release(ctx), ErrFenced)
				plan(6, "delete slot,")
				faultkv.WantErr(t, h.Release(ctx), nil)
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
				l := newLockWorld(t)
				a, b := sessionIn(t, l.World), sessionIn(t, l.World)
				ctx, quit := context.WithCancel(faultkv.Within(t))
				defer quit()
				var h *Hold
				if tc.name != "take" {
					h = <-l.acquires(ctx, a)
				}
				arrived, gate := l.stuckAt(tc.writes, sent)
				got := l.acquires(ctx, b)
				if tc.writes == "put slot,delete entry," {
					l.wants(a, b)
					if _, err := l.Client.Revoke(faultkv.Within(t), a.lease); err != nil {
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
					faultkv.WantErr(t, h.Release(faultkv.Within(t)), nil)
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
			l := newLockWorld(t)
			a, b, c := sessionIn(t, l.World), sessionIn(t, l.World), sessionIn(t, l.World)
			h := <-l.acquires(faultkv.Within(t), a)
			ctx, quit := context.WithCancel(faultkv.Within(t))
			second := l.acquires(ctx, b)
			l.wants(a, b)
			third := l.acquires(faultkv.Within(t), c)
			l.wants(a, b, c)
			arrived, gate := l.stuckAt("put slot,delete entry,", sent)
			released := make(chan error, 1)
			go func() { released <- h.Release(faultkv.Within(t)) }()
			<-arrived
			quit()
			if h := <-second; h != nil { // it learned of it just before
				faultkv.WantErr(t, h.Release(faultkv.Within(t)), nil)
			}
			close(gate)
			faultkv.WantErr(t, <-released, nil)
			h = <-third
			l.wants(c)
			faultkv.WantErr(t, h.Release(faultkv.Within(t)), nil)
			l.nothingLeft(a, b, c)
		})
	}
}

// stuckAt keeps the first Txn that writes such things on its way, or its answer,
// until gate is closed; arrived is closed when it is stuck.
func (l *lockWorld) stuckAt(writes string, sent bool) (arrived, gate chan struct{}) {
	arrived, gate = make(chan struct{}), make(chan struct{})
	stuck := false
	l.PlanBy(func(_ int, t etcdkv.Txn) faultkv.Fate {
		switch {
		case stuck || writesOf(t, l.keys) != writes:
			return faultkv.Fate{}
		case sent:
			stuck = true
			return faultkv.Fate{Then: func() { close(arrived); <-gate }}
		}
		stuck = true
		close(arrived)
		return faultkv.Fate{Hold: gate}
	})
	return arrived, gate
}

// A release whose caller gives up goes on behind, and a second one joins it.
func TestReleaseGoesOnBehindItsCaller(t *testing.T) {
	t.Parallel()
	l := newLockWorld(t)
	s := sessionIn(t, l.World)
	h := <-l.acquires(faultkv.Within(t), s)
	ctx, quit := context.WithCancel(faultkv.Within(t))
	arrived, gate := l.stuckAt("delete slot,", true)
	done := make(chan error, 1)
	go func() { done <- h.Release(ctx) }()
	<-arrived
	quit()
	err := <-done
	faultkv.WantErr(t, err, ErrUnknown)
	faultkv.WantErr(t, err, context.Canceled)
	close(gate)
	faultkv.WantErr(t, h.Release(faultkv.Within(t)), nil)
	faultkv.WantErr(t, context.Cause(h.life), ErrClosed)
	l.nothingLeft(s)
}

// A transfer that is refused leaves the hold as it was, also for a release that
// came meanwhile.
func TestReleaseDuringARefusedTransfer(t *testing.T) {
	t.Parallel()
	l := newLockWorld(t)
	s := sessionIn(t, l.World)
	h := <-l.acquires(faultkv.Within(t), s)
	reading, gate := make(chan struct{}, 8), make(chan struct{})
	l.Mu.Lock()
	l.ReadPlan = func(int) error { reading <- struct{}{}; <-gate; return nil }
	l.Mu.Unlock()
	transferred, released := make(chan error, 1), make(chan error, 1)
	go func() { transferred <- h.Transfer(faultkv.Within(t), "nobody.0000000000000001") }()
	<-reading
	go func() { released <- h.Release(faultkv.Within(t)) }()
	close(gate)
	faultkv.WantErr(t, <-transferred, ErrRefused)
	faultkv.WantErr(t, <-released, nil)
	l.nothingLeft(s)
}

// The holder does not know any more whether its release was applied: its key has
// changed, and that ends the hold.
func TestHoldOfUnknownReleaseEnds(t *testing.T) {
	t.Parallel()
	l := newLockWorld(t)
	s := sessionIn(t, l.World)
	h := <-l.acquires(faultkv.Within(t), s)
	faultsAt(l.World, l.keys, "delete slot,", faultkv.Fate{Lose: faultkv.ErrLost}, faultkv.Fate{Refuse: faultkv.ErrLost}, faultkv.Fate{Refuse: faultkv.ErrLost})
	if err := h.Release(faultkv.Within(t)); err != nil && !errors.Is(err, ErrFenced) {
		t.Errorf("release: %v", err)
	}
	select {
	case <-h.Done():
	case <-faultkv.Within(t).Done():
		t.Error("the hold never ended")
	}
	l.nothingLeft(s)
}

// A commit under a lock writes other keys than the lock's: whatever becomes of its
// answers, it happens once.
func TestCommitOfAHoldHappensOnce(t *testing.T) {
	for _, loss := range faultkv.Lossy {
		t.Run(loss.Name, func(t *testing.T) {
			t.Parallel()
			l := newLockWorld(t)
			s := sessionIn(t, l.World)
			h := <-l.acquires(faultkv.Within(t), s)
			for n := int64(1); n <= 3; n++ {
				l.Faults(loss.Faults...)
				if _, err := h.Commit(faultkv.Within(t), clientv3.OpPut(l.Data+"effect", "")); err != nil {
					t.Fatal(err)
				}
				l.Deliver(t)
				faultkv.WantVersions(t, l.World, map[string]int64{"effect": n})
			}
			l.PlanBy(nil)
			faultkv.WantErr(t, h.Release(faultkv.Within(t)), nil)
			l.Faults(loss.Faults...)
			_, err := h.Commit(faultkv.Within(t), clientv3.OpPut(l.Data+"effect", ""))
			faultkv.WantErr(t, err, ErrFenced)
			l.Deliver(t)
			faultkv.WantVersions(t, l.World, map[string]int64{"effect": 3})
			l.PlanBy(nil)
			l.nothingLeft(s)
		})
	}
}
