package coord_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/inside"
	"github.com/leasekit/leasekit/internal/line"
)

// All claims are read at once, with as many requests for a hundred of them as for one, and what is read is what each one
// says of itself.
func TestClaimStatesAskOnceForAll(t *testing.T) {
	t.Parallel()
	var rec etcdtest.Recorder
	counted := etcdtest.Shared(t).Client(t, rec.DialOptions()...)
	root := etcdtest.Root(t)
	store, err := etcdkv.NewStore(counted, root, nil)
	must(t, err)
	a, gone := lockSession(t, root), lockSession(t, root)
	requests := map[int]int{}
	made := 0
	for _, n := range []int{1, 100} {
		for ; made < n; made++ {
			s := a
			if made%3 == 0 {
				s = gone
			}
			_, err := coord.NewLock(s, fmt.Sprintf("l/%03d", made)).TryAcquire(within(t))
			must(t, err)
			_, err = leadership(s, fmt.Sprintf("e/%03d", made)).TryAcquire(within(t))
			must(t, err)
			_, err = coord.NewSemaphore(s, fmt.Sprintf("s/%03d", made), 2).TryAcquire(within(t))
			must(t, err)
		}
		rec.Reset()
		for _, list := range []func() ([]line.State, error){
			func() ([]line.State, error) { return line.LockStates(within(t), store) },
			func() ([]line.State, error) { return line.ElectionStates(within(t), store) },
			func() ([]line.State, error) { return line.SemaphoreStates(within(t), store) },
		} {
			states, err := list()
			if err != nil || len(states) != n {
				t.Fatalf("%d states of %d, %v", len(states), n, err)
			}
		}
		for _, sent := range rec.Counts() {
			requests[n] += sent
		}
	}
	if requests[100] > requests[1] {
		t.Errorf("%d requests for one of each, %d for a hundred", requests[1], requests[100])
	}

	must(t, store.Revoke(within(t), gone.Lease()))
	all, err := line.LockStates(within(t), store)
	must(t, err)
	for i, st := range all {
		one, err := line.LockState(within(t), store, st.Name)
		must(t, err)
		if one.Owner != st.Owner || one.Token != st.Token || one.OwnerGone != st.OwnerGone || one.Key != st.Key || st.OwnerGone != (i%3 == 0) {
			t.Errorf("%s: %+v in the list, %+v alone", st.Name, st, one)
		}
	}
}

// What is shown of a semaphore is who holds which permit and who waits; a permit can be taken by force.
func TestSemaphoreStateShowsPermitsAndTheLine(t *testing.T) {
	t.Parallel()
	root := etcdtest.Root(t)
	a, b := lockSession(t, root), lockSession(t, root)
	store := inside.Of(a).Store()
	if states, err := line.SemaphoreState(within(t), store, "gpu"); err != nil || len(states) != 0 {
		t.Errorf("of nothing: %+v, %v", states, err)
	}
	if _, err := line.SemaphoreState(within(t), store, ""); !errors.Is(err, coord.ErrInvalid) {
		t.Errorf("without a name: %v", err)
	}
	for range 2 {
		_, err := coord.NewSemaphore(a, "gpu", 2).Acquire(within(t))
		must(t, err)
	}
	got := make(chan error, 1)
	ctx := within(t)
	go func() {
		_, err := coord.NewSemaphore(b, "gpu", 2).Acquire(ctx)
		got <- err
	}()
	var states []line.State
	for len(states) == 0 || len(states[0].Waiters) == 0 {
		var err error
		states, err = line.SemaphoreState(ctx, store, "gpu")
		must(t, err)
	}
	if len(states) != 2 || states[0].Permit == states[1].Permit || states[1].Owner != a.ID() || !slices.Equal(states[1].Waiters, []string{b.ID()}) {
		t.Fatalf("held twice: %+v", states)
	}
	must(t, line.ForceRelease(ctx, store, states[1], "", "ana", "its host is gone"))
	must(t, <-got)
	if names, err := line.SemaphoreNames(ctx, store); err != nil || !slices.Equal(names, []string{"gpu"}) {
		t.Errorf("names %q, %v", names, err)
	}
	after, err := line.SemaphoreState(ctx, store, "gpu")
	must(t, err)
	if len(after) != 2 || after[0].Owner != a.ID() || after[1].Owner != b.ID() || after[1].ForcedBy != "ana" {
		t.Errorf("after it was taken: %+v", after)
	}
	if err := line.ForceRelease(ctx, store, states[1], "", "ana", ""); !errors.Is(err, coord.ErrFenced) {
		t.Errorf("the claim that has moved was taken: %v", err)
	}
}
