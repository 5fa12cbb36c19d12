package lane

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
	"github.com/leasekit/leasekit/internal/fault"
	"github.com/leasekit/leasekit/internal/faultkv"
)

// gone hands a Txn over whose caller leaves once it was sent.
func left(t *testing.T, w *faultkv.World, c *Committer, txn etcdkv.Txn) *Pending {
	t.Helper()
	sent := w.Sent()
	ctx, cancel := context.WithCancel(t.Context())
	p := c.Go(txn)
	w.WaitSent(t, sent+1)
	cancel()
	if _, err := p.Wait(ctx); !errors.Is(err, fault.ErrUnknown) {
		t.Fatalf("the caller that leaves: got %v, want fault.ErrUnknown", err)
	}
	return p
}

// A write whose outcome is open never overtakes a later one of the same key: the
// later one settles it first, whatever the two have in common.
func TestALaterWriteSettlesTheEarlierOne(t *testing.T) {
	for name, c := range map[string]struct {
		first, second func(w *faultkv.World) etcdkv.Txn
	}{
		"two puts": {
			func(w *faultkv.World) etcdkv.Txn { return faultkv.PutTxn(w.Data+"k", "1") },
			func(w *faultkv.World) etcdkv.Txn { return faultkv.PutTxn(w.Data+"k", "2") },
		},
		"a put and a delete": {
			func(w *faultkv.World) etcdkv.Txn { return faultkv.PutTxn(w.Data+"k", "1") },
			func(w *faultkv.World) etcdkv.Txn {
				return etcdkv.Txn{Then: []clientv3.Op{clientv3.OpDelete(w.Data + "k")}}
			},
		},
		"a put, and a write that compares its key": {
			func(w *faultkv.World) etcdkv.Txn { return faultkv.PutTxn(w.Data+"k", "1") },
			func(w *faultkv.World) etcdkv.Txn {
				return etcdkv.Txn{If: []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(w.Data+"k"), "=", 0)}, Then: []clientv3.Op{clientv3.OpPut(w.Data+"other", "2")}}
			},
		},
		"a put, and a range over its key": {
			func(w *faultkv.World) etcdkv.Txn { return faultkv.PutTxn(w.Data+"k", "1") },
			func(w *faultkv.World) etcdkv.Txn {
				return etcdkv.Txn{If: []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(w.Data), "=", 0).WithPrefix()}, Then: []clientv3.Op{clientv3.OpPut(w.Data+"other", "2")}, Else: []clientv3.Op{clientv3.OpGet(w.Data + "k")}}
			},
		},
		"two writes in order": {
			func(w *faultkv.World) etcdkv.Txn {
				return etcdkv.Txn{Then: faultkv.PutTxn(w.Data+"k", "1").Then, InOrder: true}
			},
			func(w *faultkv.World) etcdkv.Txn {
				return etcdkv.Txn{Then: faultkv.PutTxn(w.Data+"other", "2").Then, InOrder: true}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := faultkv.NewWorld(t)
			cm := openedCommitter(t, w)
			w.Faults(faultkv.Fate{Hold: make(chan struct{}), Late: true})
			first := left(t, w, cm, c.first(w))
			second, err := cm.Do(faultkv.Within(t), c.second(w))
			if err != nil {
				t.Fatal(err)
			}
			select {
			case <-first.Done():
			default:
				t.Error("the later write went before the outcome of the earlier one was known")
			}
			before := w.Dump(t)
			w.Deliver(t)
			if after := w.Dump(t); after != before {
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
	w := faultkv.NewWorld(t)
	c := openedCommitter(t, w)
	gate := make(chan struct{})
	w.Faults(faultkv.Fate{Hold: gate})
	slow := left(t, w, c, faultkv.PutTxn(w.Data+"k", "1"))
	mustApply(t, c, faultkv.PutTxn(w.Data+"other", "2"))
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
	w := faultkv.NewWorld(t)
	c := openedCommitter(t, w)
	gate := make(chan struct{})
	w.Faults(faultkv.Fate{Hold: gate})
	first := c.Go(faultkv.PutTxn(w.Data+"k", "1"))
	w.WaitSent(t, 1)
	second := c.Go(faultkv.PutTxn(w.Data+"k", "2"))
	mustApply(t, c, faultkv.PutTxn(w.Data+"other", "")) // by another lane: the first is slow by now
	close(gate)
	a, b := mustWait(t, first), mustWait(t, second)
	if !a.Succeeded || !b.Succeeded || a.Revision >= b.Revision || w.Value(t, "k") != "2" {
		t.Errorf("got revisions %d and %d, value %q, want the first before the second", a.Revision, b.Revision, w.Value(t, "k"))
	}
}

// Where nothing can be put, the lane is ended instead: that too makes the original
// impossible.
func TestALaterWriteSettlesWithoutAPut(t *testing.T) {
	w := faultkv.NewWorld(t)
	c := openedCommitter(t, w)
	w.PlanBy(func(n int, txn etcdkv.Txn) faultkv.Fate {
		switch {
		case n == 1:
			return faultkv.Fate{Hold: make(chan struct{}), Late: true}
		case n == 2: // the empty batch
			return faultkv.Fate{Refuse: rpctypes.ErrPermissionDenied}
		}
		return faultkv.Fate{}
	})
	left(t, w, c, faultkv.PutTxn(w.Data+"k", "1"))
	if _, err := c.Do(faultkv.Within(t), faultkv.PutTxn(w.Data+"k", "2")); err != nil {
		t.Fatal(err)
	}
	w.Deliver(t)
	if got := w.Value(t, "k"); got != "2" {
		t.Errorf("got %q, want the later write", got)
	}
}

// The lane was ended, yet the first try had been applied: the outcome is read at the
// lane's last revision.
func TestTheOutcomeIsReadWhenALaneIsEnded(t *testing.T) {
	w := faultkv.NewWorld(t)
	c := openedCommitter(t, w)
	w.PlanBy(func(n int, txn etcdkv.Txn) faultkv.Fate {
		switch n {
		case 1:
			return faultkv.Fate{Lose: faultkv.ErrLost}
		case 2, 3:
			return faultkv.Fate{Refuse: rpctypes.ErrPermissionDenied}
		}
		return faultkv.Fate{}
	})
	r, err := c.Do(faultkv.Within(t), faultkv.PutTxn(w.Data+"k", "1"))
	if err != nil || !r.Succeeded || w.Value(t, "k") != "1" {
		t.Errorf("got %v %v, value %q, want applied", r.Succeeded, err, w.Value(t, "k"))
	}
}

// A second flight takes nothing that meets the first.
func TestASecondFlightKeepsTheOrderOfAKey(t *testing.T) {
	w := faultkv.NewWorld(t)
	c := openedCommitter(t, w)
	gate := make(chan struct{})
	w.Faults(faultkv.Fate{Hold: gate})
	first := c.Go(faultkv.PutTxn(w.Data+"k", "1"))
	w.WaitSent(t, 1)
	second := c.Go(faultkv.PutTxn(w.Data+"k", "2"))
	var rest []*Pending
	for n := range 2 * secondFlight {
		rest = append(rest, c.Go(faultkv.PutTxn(fmt.Sprintf("%s%d", w.Data, n), "")))
	}
	for _, p := range rest {
		mustWait(t, p)
	}
	close(gate)
	a, b := mustWait(t, first), mustWait(t, second)
	if a.Revision >= b.Revision || w.Value(t, "k") != "2" {
		t.Errorf("got revisions %d and %d, value %q, want the first before the second", a.Revision, b.Revision, w.Value(t, "k"))
	}
}

// What is to keep its order keeps it beside other writes, and through lost answers.
func TestInOrderBesideOthers(t *testing.T) {
	w := faultkv.NewWorld(t)
	c := openedCommitter(t, w)
	w.PlanBy(func(n int, _ etcdkv.Txn) faultkv.Fate {
		if n%3 == 0 {
			return faultkv.Fate{Lose: faultkv.ErrLost}
		}
		return faultkv.Fate{}
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
					if _, err := c.Do(faultkv.Within(t), faultkv.PutTxn(fmt.Sprintf("%sbeside-%d", w.Data, i), fmt.Sprint(n))); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	var ordered []*Pending
	for n := range 900 {
		txn := faultkv.PutTxn(fmt.Sprintf("%sordered-%d", w.Data, n), "")
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
				w := faultkv.NewWorld(t)
				c := openedCommitter(t, w)
				w.PlanBy(func(n int, txn etcdkv.Txn) faultkv.Fate {
					switch {
					case n == 1 && applied:
						return faultkv.Fate{Lose: faultkv.ErrLost}
					case n == 1:
						return faultkv.Fate{Late: true}
					}
					return faultkv.Fate{Refuse: refusal}
				})
				r, err := c.Do(faultkv.Within(t), faultkv.PutTxn(w.Data+"k", "1"))
				w.Deliver(t)
				switch value := w.Value(t, "k"); {
				case applied && (err != nil || !r.Succeeded):
					t.Errorf("applied, and its caller hears %v %v", r.Succeeded, err)
				case !applied && (err == nil || errors.Is(err, fault.ErrUnknown) || value != ""):
					t.Errorf("not applied, value %q, and its caller hears %v", value, err)
				}
			})
		}
	}
}

// Where nothing at all tells, the outcome is unknown; it is fixed once the lane has
// ended.
func TestAnUnknownOutcomeIsFixedWhenItsLaneHasEnded(t *testing.T) {
	w := faultkv.NewWorld(t)
	denied := make(chan struct{})
	w.OnRevoke = func() error {
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
	w.PlanBy(nil)
	waits := c.Go(faultkv.PutTxn(w.Data+"k", "2"))
	mustApply(t, c, faultkv.PutTxn(w.Data+"other", ""))
	select {
	case <-waits.Done():
		t.Error("a later write went past an original that may arrive")
	default:
	}
	close(denied)
	mustWait(t, waits)
	select {
	case <-p.Fixed():
	case <-time.After(faultkv.Deadline):
		t.Error("not fixed, although its lane has ended")
	}
	w.Deliver(t)
	if got := w.Value(t, "k"); got != "2" {
		t.Errorf("got %q, want the later write", got)
	}
}

// unsettled writes key k with an outcome that stays unknown: its original is still under
// way, and every later Txn is denied.
func unsettled(t *testing.T, w *faultkv.World, c *Committer) *Pending {
	t.Helper()
	w.PlanBy(func(n int, _ etcdkv.Txn) faultkv.Fate {
		if n == 1 {
			return faultkv.Fate{Late: true}
		}
		return faultkv.Fate{Refuse: rpctypes.ErrPermissionDenied}
	})
	p := c.Go(faultkv.PutTxn(w.Data+"k", "1"))
	<-p.Done()
	_, err := p.Result()
	faultkv.WantErr(t, err, fault.ErrUnknown)
	return p
}

// A committer that is closed and could not end the lane keeps nobody waiting, and says
// that the outcome may change yet.
func TestAnUnknownOutcomeOfAClosedCommitter(t *testing.T) {
	w := faultkv.NewWorld(t)
	w.OnRevoke = func() error { return rpctypes.ErrPermissionDenied }
	c := openedCommitter(t, w)
	p := unsettled(t, w, c)
	faultkv.WantErr(t, c.Close(t.Context()), rpctypes.ErrPermissionDenied)
	select {
	case <-p.Fixed():
	case <-time.After(faultkv.Deadline):
		t.Error("it is waited for although nothing will come")
	}
	if !p.isLate() {
		t.Error("its original may arrive, and it does not say so")
	}
}
