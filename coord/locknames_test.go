package coord_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/inside"
	"github.com/leasekit/leasekit/internal/line"
)

// Names that nest, hold separators or look like our own keys do not touch each
// other, whatever they name.
func TestNamesDoNotTouchEachOther(t *testing.T) {
	t.Parallel()
	root := etcdtest.Root(t)
	s := lockSession(t, root)
	names := []string{
		"a", "a/b", "a/", "/a", "a/holder", "a/waiters/", "a/waiters/x-1", "a%2Fb", "A", "a b", "..", ".", "ä", "a.b", "a\\b", "*", "sessions/" + s.ID(),
	}
	for _, name := range names {
		h, err := coord.NewLock(s, name).TryAcquire(within(t))
		if err != nil {
			t.Fatalf("lock %q: %v", name, err)
		}
		defer func() { must(t, h.Release(within(t))) }()
		lead, err := leadership(s, name).TryAcquire(within(t))
		if err != nil {
			t.Fatalf("leadership %q: %v", name, err)
		}
		defer func() { must(t, lead.Release(within(t))) }()
		permit, err := coord.NewSemaphore(s, name, 1).TryAcquire(within(t))
		if err != nil {
			t.Fatalf("semaphore %q: %v", name, err)
		}
		defer func() { must(t, permit.Release(within(t))) }()
	}
	slices.Sort(names)
	for what, list := range map[string]func() ([]string, error){
		"locks":     func() ([]string, error) { return line.LockNames(within(t), inside.Of(s).Store()) },
		"elections": func() ([]string, error) { return line.ElectionNames(within(t), inside.Of(s).Store()) },
	} {
		if got, err := list(); err != nil || !slices.Equal(got, names) {
			t.Errorf("%s: got %q %v, want %q", what, got, err, names)
		}
	}
	for _, bad := range []string{"", "\x00", "\xff", string(make([]byte, 300))} {
		if _, err := coord.NewLock(s, bad).Acquire(within(t)); !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("lock %q: got %v, want ErrInvalid", bad, err)
		}
	}
}

// Keys that are not ours, under and beside a lock's, block nobody: neither those
// who acquire, nor those who wait, nor a release.
func TestForeignKeysBlockNobody(t *testing.T) {
	t.Parallel()
	root := etcdtest.Root(t)
	client := etcdtest.Shared(t).Client(t)
	a, b := lockSession(t, root), lockSession(t, root)
	grant, err := client.Grant(within(t), 60)
	must(t, err)
	for _, key := range []string{"holder", "holder/x", "waiters", "waiters/", "waiters/0", "waiters/x/y", "zzz", "waiters/" + a.ID() + "-x"} {
		_, err := client.Put(within(t), root+"locks/l/"+key, `{"session":"x"}`)
		must(t, err)
		_, err = client.Put(within(t), root+"semaphores/s/"+key, "junk", clientv3.WithLease(grant.ID))
		must(t, err)
	}
	for _, key := range []string{"slots/0", "slots/1/x", "slots/x"} {
		_, err := client.Put(within(t), root+"semaphores/s/"+key, "junk")
		must(t, err)
	}
	for range 2 {
		h, err := coord.NewLock(a, "l").Acquire(within(t))
		must(t, err)
		got := waiting(t, b, "l", 1)
		must(t, h.Release(within(t)))
		r := <-got
		must(t, r.err)
		must(t, r.hold.Release(within(t)))
		first, err := coord.NewSemaphore(a, "s", 2).Acquire(within(t))
		must(t, err)
		second, err := coord.NewSemaphore(b, "s", 2).TryAcquire(within(t))
		must(t, err)
		if _, err := coord.NewSemaphore(b, "s", 2).TryAcquire(within(t)); !errors.Is(err, coord.ErrHeld) {
			t.Errorf("third permit of two: got %v, want ErrHeld", err)
		}
		must(t, first.Release(within(t)))
		must(t, second.Release(within(t)))
	}
	// The list shows what is ours, or would be.
	if got, err := line.LockNames(within(t), inside.Of(a).Store()); err != nil || !slices.Equal(got, []string{"l"}) {
		t.Errorf("names: got %q, %v", got, err)
	}
}

// Permits go to those who wait, in order; those of the dead too.
func TestSemaphoreServesTheLineInOrder(t *testing.T) {
	t.Parallel()
	const permits, inLine = 2, 5
	root := etcdtest.Root(t)
	client := etcdtest.Shared(t).Client(t)
	dead, quick := lockSession(t, root), lockSession(t, root)
	_, err := coord.NewSemaphore(dead, "s", permits).Acquire(within(t))
	must(t, err)
	h, err := coord.NewSemaphore(quick, "s", permits).Acquire(within(t))
	must(t, err)
	served := make(chan int, inLine)
	gate := make(chan struct{})
	ended := make(chan error, inLine)
	ctx := within(t)
	for i := range inLine {
		s := lockSession(t, root)
		go func() {
			h, err := coord.NewSemaphore(s, "s", permits).Acquire(ctx)
			if err == nil {
				served <- i
				<-gate
				err = h.Release(ctx)
			}
			ended <- err
		}()
		awaitEntries(t, client, root+"semaphores/s/waiters/", i+1)
	}
	must(t, h.Release(within(t)))
	if got := <-served; got != 0 {
		t.Errorf("a released permit went to waiter %d", got)
	}
	if _, err := client.Revoke(within(t), dead.Lease()); err != nil {
		t.Fatal(err)
	}
	if got := <-served; got != 1 {
		t.Errorf("a dead holder's permit went to waiter %d", got)
	}
	close(gate)
	for range inLine {
		must(t, <-ended)
	}
	wantNothing(t, client, root+"semaphores/")
	for _, n := range []int{0, -1, 101} {
		if _, err := coord.NewSemaphore(quick, "s", n).Acquire(ctx); !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("%d permits: got %v, want ErrInvalid", n, err)
		}
	}
}

// awaitEntries blocks until there are n keys under prefix.
func awaitEntries(t *testing.T, client *clientv3.Client, prefix string, n int) {
	t.Helper()
	for ctx := within(t); ; {
		resp, err := client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
		must(t, err)
		if int(resp.Count) == n {
			return
		}
	}
}

// An operator takes a lock from its holder: for the first in line, for one that he
// names, or for nobody; only the very claim that he saw; and it can be seen who did.
func TestForceRelease(t *testing.T) {
	t.Parallel()
	root := etcdtest.Root(t)
	client := etcdtest.Shared(t).Client(t)
	named := func(identity string) *coord.Session {
		return open(t, client, coord.SessionConfig{Root: root, Identity: identity, TTL: 5 * time.Second})
	}
	a, b, c := named("a"), named("b.c"), named("d")
	store := newStore(t, client, root)
	state := func() line.State {
		t.Helper()
		st, err := line.LockState(within(t), store, "l")
		must(t, err)
		return st
	}
	if err := line.ForceRelease(within(t), store, state(), "", "", ""); !errors.Is(err, coord.ErrRefused) {
		t.Errorf("a lock that nobody holds: got %v, want ErrRefused", err)
	}
	old, err := coord.NewLock(a, "l").Acquire(within(t))
	must(t, err)
	seen := state()
	second := waiting(t, b, "l", 1)
	third := waiting(t, c, "l", 2)
	for name, want := range map[string]string{"b.c": b.ID(), "d": c.ID(), c.ID(): c.ID(), "b": "", "": "", a.ID(): ""} {
		if got, err := state().Waiter(name); got != want || (err == nil) != (want != "") {
			t.Errorf("waiter %q: got %q, %v, want %q", name, got, err, want)
		}
	}
	if err := line.ForceRelease(within(t), store, seen, "x", "", ""); !errors.Is(err, coord.ErrRefused) {
		t.Errorf("for nobody: got %v, want ErrRefused", err)
	}
	must(t, line.ForceRelease(within(t), store, seen, c.ID(), "ana", "stuck"))
	h := (<-third).hold
	if st := state(); st.Owner != c.ID() || st.ForcedBy != "ana" || st.Reason != "stuck" || coord.Token(st.Token) != h.Token() {
		t.Errorf("after it was given to c: %+v", st)
	}
	done(t, "the end of the old hold", old.Done())
	if _, err := old.Commit(within(t), clientv3.OpPut("/x", "")); !errors.Is(err, coord.ErrFenced) {
		t.Errorf("late commit: got %v, want ErrFenced", err)
	}
	if err := line.ForceRelease(within(t), store, seen, "", "", ""); !errors.Is(err, coord.ErrFenced) {
		t.Errorf("another claim than the one seen: got %v, want ErrFenced", err)
	}
	must(t, line.ForceRelease(within(t), store, state(), "", "ana", ""))
	h = (<-second).hold
	must(t, h.Verify(within(t)))
	must(t, line.ForceRelease(within(t), store, state(), "", "bob", "why not"))
	if st := state(); st.Owner != "" || st.ForcedBy != "bob" || st.Reason != "why not" {
		t.Errorf("freed: %+v", st)
	}
	h, err = coord.NewLock(a, "l").TryAcquire(within(t))
	must(t, err)
	if st := state(); st.ForcedBy != "" {
		t.Errorf("acquired anew: %+v", st)
	}
	must(t, h.Release(within(t)))
	wantNothing(t, client, root+"locks/")
}
