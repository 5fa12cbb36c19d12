package coord

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/faultkv"
	"github.com/leasekit/leasekit/internal/line"
)

// lostWith loses the answer of a session's next write to the lock and ends the lane that
// it travelled in, so that nothing but the lock's own history tells what became of it.
// Arrives tells whether the write does; then comes what happens meanwhile.
func (l *lockWorld) lostWith(s *Session, writes string, arrives bool, meanwhile func()) {
	lane := laneLease(l, s)
	f := faultkv.Fate{Then: func() {
		if _, err := l.Client.Revoke(faultkv.Within(l.t), lane); err != nil {
			l.t.Error(err)
		}
		meanwhile()
	}}
	if arrives {
		f.Lose = faultkv.ErrLost
	} else {
		f.Refuse = faultkv.ErrLost
	}
	faultsAt(l.World, l.keys, writes, f)
}

// deleteSlot takes the lock from its owner as somebody with etcdctl does.
func (l *lockWorld) deleteSlot(h *Hold) {
	l.t.Helper()
	if _, err := l.Client.Delete(faultkv.Within(l.t), h.fence.Key); err != nil {
		l.t.Error(err)
	}
}

// force gives the lock to a waiter, as an operator does.
func (l *lockWorld) force(to *Session) {
	l.t.Helper()
	st, err := line.LockState(faultkv.Within(l.t), l.Store, "l")
	if err == nil {
		err = line.ForceRelease(faultkv.Within(l.t), l.Store, st, to.id, "op", "test")
	}
	if err != nil {
		l.t.Error(err)
	}
}

// After a try of which the outcome is lost, "not ours any more" is success only where
// what followed the claim is what the try wrote.
func TestGivingUpInDoubt(t *testing.T) {
	type scene struct {
		l       *lockWorld
		a, b, c *Session
		h       *Hold
	}
	transfer := func(s scene) error { return s.h.Transfer(faultkv.Within(s.l.t), s.b.id) }
	release := func(s scene) error { return s.h.Release(faultkv.Within(s.l.t)) }
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
			l := newLockWorld(t)
			s := scene{l: l, a: sessionIn(t, l.World), b: sessionIn(t, l.World), c: sessionIn(t, l.World)}
			ctx, cancel := context.WithCancel(faultkv.Within(t))
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
			faultkv.WantErr(t, c.do(s), c.want)
			switch c.mustHold {
			case "b":
				l.wants(s.b, s.c)
			case "c":
				l.owned(s.c) // b may stand in line again, where it has not seen that it held the lock
			case "":
				l.wants(nil)
			}
			l.Deliver(t)
			cancel()
			for _, h := range []<-chan *Hold{second, third} {
				if h == nil {
					continue
				}
				if h := <-h; h != nil {
					_ = h.Release(faultkv.Within(t))
				}
			}
		})
	}
}

// owned blocks until a session holds the lock, whoever waits.
func (l *lockWorld) owned(s *Session) {
	l.t.Helper()
	for ctx := faultkv.Within(l.t); ; {
		st, err := line.LockState(ctx, l.Store, "l")
		if ctx.Err() != nil {
			l.t.Fatalf("the lock is %q's, want %q: %v", st.Owner, s.id, err)
		}
		if err == nil && st.Owner == s.id {
			return
		}
	}
}

// forceFree takes the lock from its owner for nobody.
func (l *lockWorld) forceFree() {
	l.t.Helper()
	st, err := line.LockState(faultkv.Within(l.t), l.Store, "l")
	if err == nil {
		err = line.ForceRelease(faultkv.Within(l.t), l.Store, st, "", "op", "test")
	}
	if err != nil {
		l.t.Error(err)
	}
}

// Where history does not reach back to the claim, nothing tells.
func TestGivingUpInDoubtBehindACompaction(t *testing.T) {
	t.Parallel()
	w := faultkv.WorldOn(t, etcdtest.New(t, etcdtest.Config{}).Client(t)) // others need their history
	l := &lockWorld{World: w, t: t, keys: w.Store.Keys().LockKeys("l")}
	a := sessionIn(t, l.World)
	h := <-l.acquires(faultkv.Within(t), a)
	l.lostWith(a, "delete slot,", false, func() {
		l.forceFree()
		resp, err := l.Client.Put(faultkv.Within(t), l.Data+"tick", "")
		if err == nil {
			_, err = l.Client.Compact(faultkv.Within(t), resp.Header.Revision)
		}
		if err != nil {
			t.Error(err)
		}
	})
	faultkv.WantErr(t, h.Release(faultkv.Within(t)), ErrUnknown)
}

// A release that etcd denies leaves the hold as it was, and one whose caller has gone is
// tried no further: the hold is still its holder's, who tries again.
func TestADeniedReleaseLeavesTheHold(t *testing.T) {
	t.Parallel()
	l := newLockWorld(t)
	a := sessionIn(t, l.World)
	h := <-l.acquires(faultkv.Within(t), a)
	denied := faultkv.Fate{Refuse: rpctypes.ErrPermissionDenied}
	l.PlanBy(func(int, etcdkv.Txn) faultkv.Fate { return denied })
	l.ReadPlan = func(int) error { return nil }
	// Deleting needs no lane, so the Txn goes without one and is denied there too.
	faultkv.WantErr(t, h.Release(faultkv.Within(t)), rpctypes.ErrPermissionDenied)
	select {
	case <-h.Done():
		t.Error("the hold is over, although etcd has it")
	default:
	}
	if _, err := a.Commit(faultkv.Within(t), nil, clientv3.OpPut(l.Data+"k", "")); !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("got %v", err)
	}
	l.PlanBy(nil)
	faultkv.WantErr(t, h.Release(faultkv.Within(t)), nil)
	l.nothingLeft(a)
}

// Without the right to write lanes, what only deletes goes without one.
func TestReleaseWithoutALane(t *testing.T) {
	t.Parallel()
	l := newLockWorld(t)
	a := sessionIn(t, l.World)
	h := <-l.acquires(faultkv.Within(t), a)
	l.PlanBy(func(_ int, t etcdkv.Txn) faultkv.Fate {
		if len(t.Then) > 0 && t.Then[0].IsPut() {
			return faultkv.Fate{Refuse: rpctypes.ErrPermissionDenied}
		}
		return faultkv.Fate{}
	})
	faultkv.WantErr(t, h.Release(faultkv.Within(t)), nil)
	l.PlanBy(nil)
	l.nothingLeft(a)
}

// A hold that was released went to the first in line: a transfer afterwards did nothing.
func TestATransferAfterARelease(t *testing.T) {
	t.Parallel()
	l := newLockWorld(t)
	a, b, c := sessionIn(t, l.World), sessionIn(t, l.World), sessionIn(t, l.World)
	h := <-l.acquires(faultkv.Within(t), a)
	second, third := l.acquires(faultkv.Within(t), b), l.acquires(faultkv.Within(t), c)
	l.held(a, 2)
	faultkv.WantErr(t, h.Release(faultkv.Within(t)), nil)
	faultkv.WantErr(t, h.Release(faultkv.Within(t)), nil)
	faultkv.WantErr(t, h.Transfer(faultkv.Within(t), c.id), ErrClosed)
	for _, got := range []<-chan *Hold{second, third} {
		go func() { _ = (<-got).Release(faultkv.Within(t)) }()
	}
	l.nothingLeft(a, b, c)
}

// held blocks until a session holds the lock and so many wait.
func (l *lockWorld) held(s *Session, waiters int) {
	l.t.Helper()
	for ctx := faultkv.Within(l.t); ; {
		st, err := line.LockState(ctx, l.Store, "l")
		if ctx.Err() != nil {
			l.t.Fatalf("the lock is %q's, %d wait: %v", st.Owner, len(st.Waiters), err)
		}
		if err == nil && st.Owner == s.id && len(st.Waiters) == waiters {
			return
		}
	}
}

// laneLease is the lease of the one lane that the session has used so far.
func laneLease(l *lockWorld, s *Session) clientv3.LeaseID {
	l.t.Helper()
	identity, _, _ := strings.Cut(s.id, ".")
	resp, err := l.Client.Get(faultkv.Within(l.t), l.Store.Keys().LanesOf(identity), clientv3.WithPrefix())
	if err != nil || len(resp.Kvs) == 0 {
		l.t.Fatalf("got %v, %v, want a lane", resp, err)
	}
	return clientv3.LeaseID(resp.Kvs[0].Lease)
}
