package coord

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
)

// gone hands a Txn over whose caller leaves once it was sent.
func left(t *testing.T, w *world, c *Committer, txn etcdkv.Txn) *Pending {
	t.Helper()
	sent := w.sent()
	ctx, cancel := context.WithCancel(t.Context())
	p := c.Go(txn)
	w.waitSent(t, sent+1)
	cancel()
	if _, err := p.Wait(ctx); !errors.Is(err, ErrUnknown) {
		t.Fatalf("the caller that leaves: got %v, want ErrUnknown", err)
	}
	return p
}

// A write whose outcome is open never overtakes a later one of the same key: the
// later one settles it first, whatever the two have in common.
func TestALaterWriteSettlesTheEarlierOne(t *testing.T) {
	for name, c := range map[string]struct{ first, second func(w *world) etcdkv.Txn }{
		"two puts": {
			func(w *world) etcdkv.Txn { return putTxn(w.data+"k", "1") },
			func(w *world) etcdkv.Txn { return putTxn(w.data+"k", "2") },
		},
		"a put and a delete": {
			func(w *world) etcdkv.Txn { return putTxn(w.data+"k", "1") },
			func(w *world) etcdkv.Txn { return etcdkv.Txn{Then: []clientv3.Op{clientv3.OpDelete(w.data + "k")}} },
		},
		"a put, and a write that compares its key": {
			func(w *world) etcdkv.Txn { return putTxn(w.data+"k", "1") },
			func(w *world) etcdkv.Txn {
				return etcdkv.Txn{If: []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(w.data+"k"), "=", 0)}, Then: []clientv3.Op{clientv3.OpPut(w.data+"other", "2")}}
			},
		},
		"a put, and a range over its key": {
			func(w *world) etcdkv.Txn { return putTxn(w.data+"k", "1") },
			func(w *world) etcdkv.Txn {
				return etcdkv.Txn{If: []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(w.data), "=", 0).WithPrefix()}, Then: []clientv3.Op{clientv3.OpPut(w.data+"other", "2")}, Else: []clientv3.Op{clientv3.OpGet(w.data + "k")}}
			},
		},
		"two writes in order": {
			func(w *world) etcdkv.Txn { return etcdkv.Txn{Then: putTxn(w.data+"k", "1").Then, InOrder: true} },
			func(w *world) etcdkv.Txn { return etcdkv.Txn{Then: putTxn(w.data+"other", "2").Then, InOrder: true} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			cm := openedCommitter(t, w)
			w.faults(fate{hold: make(chan struct{}), late: true})
			first := left(t, w, cm, c.first(w))
			second, err := cm.Do(within(t), c.second(w))
			if err != nil {
				t.Fatal(err)
			}
			select {
			case <-first.Done():
			default:
				t.Error("the later write went before the outcome of the earlier one was known")
			}
			before := w.dump(t)
			w.deliver(t)
			if after := w.dump(t); after != before {
				t.Errorf("a late original changed\n%sto\n%s", before, after)
			}
			if r, err := first.Result(); err == nil && r.Succeeded && r.Revision >= second.Revision {
				t.Errorf("the earlier write at revision %d, the later one at %d", r.Revision, second.Revision)
			}
		})
	}
}

// What meets no open flight does not wait for one.
func TestOtherKeysPassAnOpenFlight(t *testing.T) {
	w := newWorld(t)
	c := openedCommitter(t, w)
	gate := make(chan struct{})
	w.faults(fate{hold: gate})
	slow := left(t, w, c, putTxn(w.data+"k", "1"))
	mustApply(t, c, putTxn(w.data+"other", "2"))
	select {
	case <-slow.Done():
		t.Error("a flight that nobody waits behind was contested")
	default:
	}
	close(gate)
	mustWait(t, slow)
}

// A caller that still waits gets its outcome: the later write queues behind it.
func TestALaterWriteWaitsForACallerThatIsThere(t *testing.T) {
	w := newWorld(t)
	c := openedCommitter(t, w)
	gate := make(chan struct{})
	w.faults(fate{hold: gate})
	first := c.Go(putTxn(w.data+"k", "1"))
	w.waitSent(t, 1)
	second := c.Go(putTxn(w.data+"k", "2"))
	mustApply(t, c, putTxn(w.data+"other", "")) // by another lane: the first is slow by now
	close(gate)
	a, b := mustWait(t, first), mustWait(t, second)
	if !a.Succeeded || !b.Succeeded || a.Revision >= b.Revision || w.value(t, "k") != "2" {
		t.Errorf("got revisions %d and %d, value %q, want the first before the second", a.Revision, b.Revision, w.value(t, "k"))
	}
}

// Where nothing can be put, the lane is ended instead: that too makes the original
// impossible.
func TestALaterWriteSettlesWithoutAPut(t *testing.T) {
	w := newWorld(t)
	c := openedCommitter(t, w)
	w.planBy(func(n int, txn etcdkv.Txn) fate {
		switch {
		case n == 1:
			return fate{hold: make(chan struct{}), late: true}
		case n == 2: // the empty batch
			return fate{refuse: rpctypes.ErrPermissionDenied}
		}
		return fate{}
	})
	left(t, w, c, putTxn(w.data+"k", "1"))
	if _, err := c.Do(within(t), putTxn(w.data+"k", "2")); err != nil {
		t.Fatal(err)
	}
	w.deliver(t)
	if got := w.value(t, "k"); got != "2" {
		t.Errorf("got %q, want the later write", got)
	}
}

// The lane was ended, yet the first try had been applied: the outcome is read at the
// lane's last revision.
func TestTheOutcomeIsReadWhenALaneIsEnded(t *testing.T) {
	w := newWorld(t)
	c := openedCommitter(t, w)
	w.planBy(func(n int, txn etcdkv.Txn) fate {
		switch n {
		case 1:
			return fate{lose: errLost}
		case 2, 3:
			return fate{refuse: rpctypes.ErrPermissionDenied}
		}
		return fate{}
	})
	r, err := c.Do(within(t), putTxn(w.data+"k", "1"))
	if err != nil || !r.Succeeded || w.value(t, "k") != "1" {
		t.Errorf("got %v %v, value %q, want applied", r.Succeeded, err, w.value(t, "k"))
	}
}

// A second flight takes nothing that meets the first.
func TestASecondFlightKeepsTheOrderOfAKey(t *testing.T) {
	w := newWorld(t)
	c := openedCommitter(t, w)
	gate := make(chan struct{})
	w.faults(fate{hold: gate})
	first := c.Go(putTxn(w.data+"k", "1"))
	w.waitSent(t, 1)
	second := c.Go(putTxn(w.data+"k", "2"))
	var rest []*Pending
	for n := range 2 * secondFlight {
		rest = append(rest, c.Go(putTxn(fmt.Sprintf("%s%d", w.data, n), "")))
	}
	for _, p := range rest {
		mustWait(t, p)
	}
	close(gate)
	a, b := mustWait(t, first), mustWait(t, second)
	if a.Revision >= b.Revision || w.value(t, "k") != "2" {
		t.Errorf("got revisions %d and %d, value %q, want the first before the second", a.Revision, b.Revision, w.value(t, "k"))
	}
}

// What is to keep its order keeps it beside other writes, and through lost answers.
func TestInOrderBesideOthers(t *testing.T) {
	w := newWorld(t)
	c := openedCommitter(t, w)
	w.planBy(func(n int, _ etcdkv.Txn) fate {
		if n%3 == 0 {
			return fate{lose: errLost}
		}
		return fate{}
	})
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for i := range 4 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
					if _, err := c.Do(within(t), putTxn(fmt.Sprintf("%sbeside-%d", w.data, i), fmt.Sprint(n))); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	var ordered []*Pending
	for n := range 900 {
		txn := putTxn(fmt.Sprintf("%sordered-%d", w.data, n), "")
		txn.InOrder = true
		ordered = append(ordered, c.Go(txn))
	}
	last := int64(0)
	for n, p := range ordered {
		r := mustWait(t, p)
		if r.Revision < last {
			t.Errorf("number %d at revision %d, the one before at %d", n, r.Revision, last)
		}
		last = r.Revision
	}
	close(stop)
	wg.Wait()
}

// After a try whose answer was lost, no refusal of a repeat says anything about it.
func TestNoRefusalOfARepeatIsAboutTheFirstTry(t *testing.T) {
	for _, refusal := range []error{
		rpctypes.ErrPermissionDenied, rpctypes.ErrNoSpace, rpctypes.ErrRequestTooLarge, rpctypes.ErrTooManyOps,
		rpctypes.ErrInvalidAuthToken, rpctypes.ErrUserEmpty, rpctypes.ErrLeaseNotFound,
	} {
		for _, applied := range []bool{true, false} {
			t.Run(fmt.Sprintf("%v, applied %v", refusal, applied), func(t *testing.T) {
				w := newWorld(t)
				c := openedCommitter(t, w)
				w.planBy(func(n int, txn etcdkv.Txn) fate {
					switch {
					case n == 1 && applied:
						return fate{lose: errLost}
					case n == 1:
						return fate{late: true}
					}
					return fate{refuse: refusal}
				})
				r, err := c.Do(within(t), putTxn(w.data+"k", "1"))
				w.deliver(t)
				switch value := w.value(t, "k"); {
				case applied && (err != nil || !r.Succeeded):
					t.Errorf("applied, and its caller hears %v %v", r.Succeeded, err)
				case !applied && (err == nil || errors.Is(err, ErrUnknown) || value != ""):
					t.Errorf("not applied, value %q, and its caller hears %v", value, err)
				}
			})
		}
	}
}

// Where nothing at all tells, the outcome is unknown; it is fixed once the lane has
// ended.
func TestAnUnknownOutcomeIsFixedWhenItsLaneHasEnded(t *testing.T) {
	w := newWorld(t)
	denied := make(chan struct{})
	w.onRevoke = func() error {
		select {
		case <-denied:
			return nil
		default:
			return rpctypes.ErrPermissionDenied
		}
	}
	c := openedCommitter(t, w)
	p := unsettled(t, w, c)
	select {
	case <-p.Fixed():
		t.Error("fixed, although its original may arrive")
	default:
	}
	w.planBy(nil)
	waits := c.Go(putTxn(w.data+"k", "2"))
	mustApply(t, c, putTxn(w.data+"other", ""))
	select {
	case <-waits.Done():
		t.Error("a later write went past an original that may arrive")
	default:
	}
	close(denied)
	mustWait(t, waits)
	select {
	case <-p.Fixed():
	case <-time.After(deadline):
		t.Error("not fixed, although its lane has ended")
	}
	w.deliver(t)
	if got := w.value(t, "k"); got != "2" {
		t.Errorf("got %q, want the later write", got)
	}
}

// unsettled writes key k with an outcome that stays unknown: its original is still under
// way, and every later Txn is denied.
func unsettled(t *testing.T, w *world, c *Committer) *Pending {
	t.Helper()
	w.planBy(func(n int, _ etcdkv.Txn) fate {
		if n == 1 {
			return fate{late: true}
		}
		return fate{refuse: rpctypes.ErrPermissionDenied}
	})
	p := c.Go(putTxn(w.data+"k", "1"))
	<-p.Done()
	_, err := p.Result()
	wantErr(t, err, ErrUnknown)
	return p
}

// A committer that is closed and could not end the lane keeps nobody waiting, and says
// that the outcome may change yet.
func TestAnUnknownOutcomeOfAClosedCommitter(t *testing.T) {
	w := newWorld(t)
	w.onRevoke = func() error { return rpctypes.ErrPermissionDenied }
	c := openedCommitter(t, w)
	p := unsettled(t, w, c)
	wantErr(t, c.Close(t.Context()), rpctypes.ErrPermissionDenied)
	select {
	case <-p.Fixed():
	case <-time.After(deadline):
		t.Error("it is waited for although nothing will come")
	}
	if !p.isLate() {
		t.Error("its original may arrive, and it does not say so")
	}
}
