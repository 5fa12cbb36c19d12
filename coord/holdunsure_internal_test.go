package coord

import (
	"context"
	"errors"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/etcdkv"
)

// lostWith loses the answer of a session's next write to the lock and ends the lane that
// it travelled in, so that nothing but the lock's own history tells what became of it.
// Arrives tells whether the write does; then comes what happens meanwhile.
func (l *line) lostWith(s *Session, writes string, arrives bool, meanwhile func()) {
	lane := s.committer.laneLeaseNow()
	f := fate{then: func() {
		if _, err := l.client.Revoke(within(l.t), lane); err != nil {
			l.t.Error(err)
		}
		meanwhile()
	}}
	if arrives {
		f.lose = errLost
	} else {
		f.refuse = errLost
	}
	faultsAt(l.world, l.keys, writes, f)
}

// deleteSlot takes the lock from its owner as somebody with etcdctl does.
func (l *line) deleteSlot(h *Hold) {
	l.t.Helper()
	if _, err := l.client.Delete(within(l.t), h.fence.Key); err != nil {
		l.t.Error(err)
	}
}

// force gives the lock to a waiter, as an operator does.
func (l *line) force(to *Session) {
	l.t.Helper()
	st, err := LockState(within(l.t), l.store, "l")
	if err == nil {
		err = ForceRelease(within(l.t), l.store, st, to.id, "op", "test")
	}
	if err != nil {
		l.t.Error(err)
	}
}

// After a try of which the outcome is lost, "not ours any more" is success only where
// what followed the claim is what the try wrote.
func TestGivingUpInDoubt(t *testing.T) {
	type scene struct {
		l       *line
		a, b, c *Session
		h       *Hold
	}
	transfer := func(s scene) error { return s.h.Transfer(within(s.l.t), s.b.id) }
	release := func(s scene) error { return s.h.Release(within(s.l.t)) }
	handed := "put slot,delete entry,"
	for name, c := range map[string]struct {
		waits    bool
		writes   string
		arrives  bool
		do       func(scene) error
		then     func(scene)
		want     error
		mustHold string
	}{
		"a transfer that arrived":                {true, handed, true, transfer, func(scene) {}, nil, "b"},
		"a transfer that arrived, then forced":   {true, handed, true, transfer, func(s scene) { s.l.force(s.c) }, nil, "c"},
		"a transfer that did not, then forced":   {true, handed, false, transfer, func(s scene) { s.l.force(s.c) }, ErrFenced, "c"},
		"a transfer that did not, forced to b":   {true, handed, false, transfer, func(s scene) { s.l.force(s.b) }, nil, "b"},
		"a hand-over that arrived":               {true, handed, true, release, func(scene) {}, nil, "b"},
		"a hand-over that did not, then forced":  {true, handed, false, release, func(s scene) { s.l.force(s.c) }, ErrFenced, "c"},
		"a hand-over that did not, then deleted": {true, handed, false, release, func(s scene) { s.l.deleteSlot(s.h) }, ErrFenced, "b"},
		"a release that arrived":                 {false, "delete slot,", true, release, func(scene) {}, nil, ""},
		"a release that did not, then forced":    {false, "delete slot,", false, release, func(s scene) { s.l.forceFree() }, ErrFenced, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLine(t)
			s := scene{l: l, a: sessionIn(t, l.world), b: sessionIn(t, l.world), c: sessionIn(t, l.world)}
			ctx, cancel := context.WithCancel(within(t))
			defer cancel()
			s.h = <-l.acquires(ctx, s.a)
			var second, third <-chan *Hold
			if c.waits {
				second = l.acquires(ctx, s.b)
				l.wants(s.a, s.b)
				third = l.acquires(ctx, s.c)
				l.wants(s.a, s.b, s.c)
			}
			l.lostWith(s.a, c.writes, c.arrives, func() { c.then(s) })
			wantErr(t, c.do(s), c.want)
			switch c.mustHold {
			case "b":
				l.wants(s.b, s.c)
			case "c":
				l.owned(s.c) // b may stand in line again, where it has not seen that it held the lock
			case "":
				l.wants(nil)
			}
			l.deliver(t)
			cancel()
			for _, h := range []<-chan *Hold{second, third} {
				if h == nil {
					continue
				}
				if h := <-h; h != nil {
					_ = h.Release(within(t))
				}
			}
		})
	}
}

// owned blocks until a session holds the lock, whoever waits.
func (l *line) owned(s *Session) {
	l.t.Helper()
	for ctx := within(l.t); ; {
		st, err := LockState(ctx, l.store, "l")
		if ctx.Err() != nil {
			l.t.Fatalf("the lock is %q's, want %q: %v", st.Owner, s.id, err)
		}
		if err == nil && st.Owner == s.id {
			return
		}
	}
}

// forceFree takes the lock from its owner for nobody.
func (l *line) forceFree() {
	l.t.Helper()
	st, err := LockState(within(l.t), l.store, "l")
	if err == nil {
		err = ForceRelease(within(l.t), l.store, st, "", "op", "test")
	}
	if err != nil {
		l.t.Error(err)
	}
}

// Where history does not reach back to the claim, nothing tells.
func TestGivingUpInDoubtBehindACompaction(t *testing.T) {
	t.Parallel()
	w := worldOn(t, etcdtest.New(t, etcdtest.Config{}).Client(t)) // others need their history
	l := &line{world: w, t: t, keys: w.store.Keys().LockKeys("l")}
	a := sessionIn(t, l.world)
	h := <-l.acquires(within(t), a)
	l.lostWith(a, "delete slot,", false, func() {
		l.forceFree()
		resp, err := l.client.Put(within(t), l.data+"tick", "")
		if err == nil {
			_, err = l.client.Compact(within(t), resp.Header.Revision)
		}
		if err != nil {
			t.Error(err)
		}
	})
	wantErr(t, h.Release(within(t)), ErrUnknown)
}

// A release that etcd denies leaves the hold as it was, and one whose caller has gone is
// tried no further: the hold is still its holder's, who tries again.
func TestADeniedReleaseLeavesTheHold(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	a := sessionIn(t, l.world)
	h := <-l.acquires(within(t), a)
	denied := fate{refuse: rpctypes.ErrPermissionDenied}
	l.planBy(func(int, etcdkv.Txn) fate { return denied })
	l.readPlan = func(int) error { return nil }
	// Deleting needs no lane, so the Txn goes without one and is denied there too.
	wantErr(t, h.Release(within(t)), rpctypes.ErrPermissionDenied)
	select {
	case <-h.Done():
		t.Error("the hold is over, although etcd has it")
	default:
	}
	if _, err := a.Commit(within(t), nil, clientv3.OpPut(l.data+"k", "")); !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("got %v", err)
	}
	l.planBy(nil)
	wantErr(t, h.Release(within(t)), nil)
	l.nothingLeft(a)
}

// Without the right to write lanes, what only deletes goes without one.
func TestReleaseWithoutALane(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	a := sessionIn(t, l.world)
	h := <-l.acquires(within(t), a)
	l.planBy(func(_ int, t etcdkv.Txn) fate {
		if len(t.Then) > 0 && t.Then[0].IsPut() {
			return fate{refuse: rpctypes.ErrPermissionDenied}
		}
		return fate{}
	})
	wantErr(t, h.Release(within(t)), nil)
	l.planBy(nil)
	l.nothingLeft(a)
}

// A hold that was released went to the first in line: a transfer afterwards did nothing.
func TestATransferAfterARelease(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	a, b, c := sessionIn(t, l.world), sessionIn(t, l.world), sessionIn(t, l.world)
	h := <-l.acquires(within(t), a)
	second, third := l.acquires(within(t), b), l.acquires(within(t), c)
	l.held(a, 2)
	wantErr(t, h.Release(within(t)), nil)
	wantErr(t, h.Release(within(t)), nil)
	wantErr(t, h.Transfer(within(t), c.id), ErrClosed)
	for _, got := range []<-chan *Hold{second, third} {
		go func() { _ = (<-got).Release(within(t)) }()
	}
	l.nothingLeft(a, b, c)
}

// held blocks until a session holds the lock and so many wait.
func (l *line) held(s *Session, waiters int) {
	l.t.Helper()
	for ctx := within(l.t); ; {
		st, err := LockState(ctx, l.store, "l")
		if ctx.Err() != nil {
			l.t.Fatalf("the lock is %q's, %d wait: %v", st.Owner, len(st.Waiters), err)
		}
		if err == nil && st.Owner == s.id && len(st.Waiters) == waiters {
			return
		}
	}
}
