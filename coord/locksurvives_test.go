package coord_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/inside"
	"github.com/leasekit/leasekit/internal/line"
)

// soon is less than it takes a waiter to look again without being told.
const soon = 4 * time.Second

// waiting starts to acquire and blocks until n wait.
func waiting(t *testing.T, s *coord.Session, name string, n int) <-chan result {
	t.Helper()
	got := make(chan result, 1)
	ctx := within(t)
	go func() {
		h, err := coord.NewLock(s, name).Acquire(ctx)
		got <- result{h, err}
	}()
	awaitWaiters(ctx, t, coord.NewLock(s, name), n)
	return got
}

type result struct {
	hold *coord.Hold
	err  error
}

// A lock that was given back and acquired again by the same session is another
// claim: the first one's late release does not touch it.
func TestSurvives_16_StaleReleaseOfANewerHold(t *testing.T) {
	t.Parallel()
	s := lockSession(t, etcdtest.Root(t))
	lock := coord.NewLock(s, "l")
	old, err := lock.Acquire(within(t))
	must(t, err)
	must(t, old.Release(within(t)))
	held, err := lock.Acquire(within(t))
	must(t, err)
	must(t, old.Release(within(t))) // its own outcome, once more
	must(t, held.Verify(within(t)))
	if err := old.Verify(within(t)); !errors.Is(err, coord.ErrFenced) {
		t.Errorf("verify the old hold: got %v, want ErrFenced", err)
	}
	if _, err := old.Commit(within(t), clientv3.OpPut("/x", "late")); !errors.Is(err, coord.ErrFenced) {
		t.Errorf("commit under the old hold: got %v, want ErrFenced", err)
	}
	if held.Token() <= old.Token() {
		t.Errorf("token %s does not rise over %s", held.Token(), old.Token())
	}
	must(t, held.Release(within(t)))
}

// The lease of a waiter ends while it waits, and then the lock comes free: it must
// not have it, and must say so.
func TestSurvives_18_WaiterWithoutALease(t *testing.T) {
	t.Parallel()
	root := etcdtest.Root(t)
	holder, waiter := lockSession(t, root), lockSession(t, root)
	h, err := coord.NewLock(holder, "l").Acquire(within(t))
	must(t, err)
	got := waiting(t, waiter, "l", 1)
	if _, err := etcdtest.Shared(t).Client(t).Revoke(within(t), waiter.Lease()); err != nil {
		t.Fatal(err)
	}
	must(t, h.Release(within(t)))
	if r := <-got; !errors.Is(r.err, coord.ErrSessionLost) {
		t.Errorf("got %v, %v, want ErrSessionLost", r.hold, r.err)
	}
	wantNothing(t, etcdtest.Shared(t).Client(t), root+"locks/")
}

// A lease that is gone before its session knows: neither the first try nor a
// waiting entry is made with it.
func TestSurvives_01_LockIsNotGivenWithoutALease(t *testing.T) {
	t.Parallel()
	for _, free := range []bool{true, false} {
		root := etcdtest.Root(t)
		holder, s := lockSession(t, root), lockSession(t, root)
		if !free {
			h, err := coord.NewLock(holder, "l").Acquire(within(t))
			must(t, err)
			defer func() { must(t, h.Release(within(t))) }()
		}
		if _, err := etcdtest.Shared(t).Client(t).Revoke(within(t), s.Lease()); err != nil {
			t.Fatal(err)
		}
		if h, err := coord.NewLock(s, "l").Acquire(within(t)); !errors.Is(err, coord.ErrSessionLost) {
			t.Errorf("free %v: got %v, %v, want ErrSessionLost", free, h, err)
		}
	}
}

// What is put on a session's lease stays on it: without it a waiting entry would
// stand in line for ever. Claims have none: their fence outlives their owner.
func TestSurvives_25_WaitingEntriesKeepTheirLease(t *testing.T) {
	t.Parallel()
	root := etcdtest.Root(t)
	client := etcdtest.Shared(t).Client(t)
	a, b := lockSession(t, root), lockSession(t, root)
	h, err := coord.NewLock(a, "l").Acquire(within(t))
	must(t, err)
	got := waiting(t, b, "l", 1)
	check := func() {
		t.Helper()
		resp, err := client.Get(within(t), root, clientv3.WithPrefix())
		must(t, err)
		for _, kv := range resp.Kvs {
			want := clientv3.NoLease
			switch key := string(kv.Key); key {
			case root + "sessions/" + a.ID():
				want = a.Lease()
			case root + "sessions/" + b.ID():
				want = b.Lease()
			case root + "locks/l/holder", root + "meta":
			default:
				if len(key) > len(root+"lanes/") && key[:len(root+"lanes/")] == root+"lanes/" {
					continue // on leases of their own
				}
				want = b.Lease()
			}
			if clientv3.LeaseID(kv.Lease) != want {
				t.Errorf("%s: on lease %x, want %x", kv.Key, kv.Lease, want)
			}
		}
	}
	check()
	must(t, h.Release(within(t)))
	r := <-got
	must(t, r.err)
	check()
	must(t, r.hold.Release(within(t)))
}

// A transfer goes past those who stand before the successor, who learns of it at
// once.
func TestTransferPastOthersIsSeenAtOnce(t *testing.T) {
	t.Parallel()
	root := etcdtest.Root(t)
	a, b, c := lockSession(t, root), lockSession(t, root), lockSession(t, root)
	h, err := coord.NewLock(a, "l").Acquire(within(t))
	must(t, err)
	second := waiting(t, b, "l", 1)
	third := waiting(t, c, "l", 2)
	if err := h.Transfer(within(t), "nobody.0123456789abcdef"); !errors.Is(err, coord.ErrRefused) {
		t.Errorf("transfer to nobody: got %v, want ErrRefused", err)
	}
	must(t, h.Verify(within(t)))
	must(t, h.Transfer(within(t), c.ID()))
	select {
	case r := <-third:
		must(t, r.err)
		must(t, r.hold.Release(within(t)))
	case <-time.After(soon):
		t.Fatal("the successor was not told")
	}
	r := <-second
	must(t, r.err)
	must(t, r.hold.Release(within(t)))
}

// Somebody deletes, or overwrites, the key behind the holder's back, or an operator
// takes the claim away: the hold ends at once.
func TestHoldEndsWhenItsKeyChanges(t *testing.T) {
	t.Parallel()
	client := etcdtest.Shared(t).Client(t)
	for name, change := range map[string]func(key string, s *coord.Session) error{
		"deleted":     func(key string, _ *coord.Session) error { _, err := client.Delete(within(t), key); return err },
		"overwritten": func(key string, _ *coord.Session) error { _, err := client.Put(within(t), key, "junk"); return err },
		"by force": func(_ string, s *coord.Session) error {
			st, err := line.LockState(within(t), inside.Of(s).Store(), "l")
			if err != nil {
				return err
			}
			return line.ForceRelease(within(t), inside.Of(s).Store(), st, "", "test", "")
		},
	} {
		s := lockSession(t, etcdtest.Root(t))
		h, err := coord.NewLock(s, "l").Acquire(within(t))
		must(t, err)
		ctx, cancel := h.Context(t.Context())
		defer cancel()
		must(t, change(h.Fence().Key, s))
		select {
		case <-ctx.Done():
		case <-time.After(soon):
			t.Fatalf("%s: the hold goes on", name)
		}
		if got := context.Cause(ctx); !errors.Is(got, coord.ErrFenced) {
			t.Errorf("%s: got cause %v, want ErrFenced", name, got)
		}
		done(t, name, h.Done())
		if err := h.Release(within(t)); !errors.Is(err, coord.ErrFenced) {
			t.Errorf("%s: release: got %v, want ErrFenced", name, err)
		}
		again, err := coord.NewLock(s, "l").Acquire(within(t))
		must(t, err)
		must(t, again.Release(within(t)))
		if started, cancel := h.Context(t.Context()); started.Err() == nil {
			t.Errorf("%s: a context of a hold that is over has not ended", name)
		} else {
			cancel()
		}
	}
}

// Close gives back what the session holds, at once, and ends what waits.
func TestCloseReleasesHoldsAndEndsWaiting(t *testing.T) {
	t.Parallel()
	root := etcdtest.Root(t)
	a, b := lockSession(t, root), lockSession(t, root)
	other, err := coord.NewLock(b, "other").Acquire(within(t))
	must(t, err)
	h, err := coord.NewLock(a, "l").Acquire(within(t))
	must(t, err)
	permit, err := coord.NewSemaphore(a, "s", 1).Acquire(within(t))
	must(t, err)
	waits := waiting(t, a, "other", 1)
	heir := waiting(t, b, "l", 1)
	must(t, a.Close(within(t)))
	if r := <-waits; !errors.Is(r.err, coord.ErrClosed) {
		t.Errorf("waiting: got %v, want ErrClosed", r.err)
	}
	for _, h := range []*coord.Hold{h, permit} {
		done(t, "the hold's end", h.Done())
	}
	r := <-heir
	must(t, r.err)
	if _, err := coord.NewLock(a, "l").Acquire(within(t)); !errors.Is(err, coord.ErrClosed) {
		t.Errorf("acquire after close: got %v, want ErrClosed", err)
	}
	must(t, r.hold.Release(within(t)))
	must(t, other.Release(within(t)))
	for _, prefix := range []string{"locks/", "semaphores/"} {
		wantNothing(t, etcdtest.Shared(t).Client(t), root+prefix)
	}
}

// Whatever the network does, every call returns by its context, and Close by its.
func TestLockCallsReturnByTheirContextInABlackHole(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.New(t, etcdtest.Config{Proxies: true})
	root := etcdtest.Root(t)
	direct := open(t, cluster.Client(t), coord.SessionConfig{Root: root, TTL: 60 * time.Second})
	s, err := coord.OpenSession(within(t), cluster.ProxiedClient(t), coord.SessionConfig{Root: root, TTL: 60 * time.Second})
	must(t, err)
	h, err := coord.NewLock(s, "mine").Acquire(within(t))
	must(t, err)
	taken, err := coord.NewLock(direct, "taken").Acquire(within(t))
	must(t, err)
	inLine := make(chan error, 1)
	lineCtx, leave := context.WithCancel(t.Context())
	go func() { _, err := coord.NewLock(s, "taken").Acquire(lineCtx); inLine <- err }()
	awaitWaiters(within(t), t, coord.NewLock(direct, "taken"), 1)
	cluster.Proxy(0).Pause()
	calls := map[string]func(context.Context) error{
		"acquire":   func(ctx context.Context) error { _, err := coord.NewLock(s, "a").Acquire(ctx); return err },
		"wait":      func(ctx context.Context) error { _, err := coord.NewLock(s, "taken").Acquire(ctx); return err },
		"try":       func(ctx context.Context) error { _, err := coord.NewLock(s, "b").TryAcquire(ctx); return err },
		"semaphore": func(ctx context.Context) error { _, err := coord.NewSemaphore(s, "c", 3).Acquire(ctx); return err },
		"state":     func(ctx context.Context) error { _, err := coord.NewLock(s, "a").State(ctx); return err },
		"verify":    h.Verify,
		"commit":    func(ctx context.Context) error { _, err := h.Commit(ctx, clientv3.OpPut("/x", "")); return err },
		"transfer":  func(ctx context.Context) error { return h.Transfer(ctx, "x.0123456789abcdef") },
		"release":   h.Release,
		"force": func(ctx context.Context) error {
			return line.ForceRelease(ctx, inside.Of(s).Store(), line.State{Owner: "x", Token: 1, Key: "x"}, "", "", "")
		},
	}
	returned := make(chan string, len(calls))
	for name, call := range calls {
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			start := time.Now()
			err := call(ctx)
			if took := time.Since(start); err == nil || took > 5*time.Second {
				name = fmt.Sprintf("%s: returned %v after %v", name, err, took)
				t.Error(name)
			}
			returned <- name
		}()
	}
	leave()
	if err := <-inLine; !errors.Is(err, context.Canceled) {
		t.Errorf("in line: got %v, want context.Canceled", err)
	}
	for range calls {
		<-returned
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	_ = s.Close(ctx)
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("close took %v", took)
	}
	cluster.Proxy(0).Heal()
	// Its lease has a minute left: what it left in line is in nobody's way then.
	must(t, inside.Of(direct).Store().Revoke(within(t), s.Lease())) // if Close has not done it
	must(t, taken.Release(within(t)))
}

// A waiter watches its predecessor and its own entry, however long the line is; the
// first one the holder.
func TestWaitersWatchFewKeys(t *testing.T) {
	t.Parallel()
	const inLine = 6
	root := etcdtest.Root(t)
	holder := lockSession(t, root)
	h, err := coord.NewLock(holder, "l").Acquire(within(t))
	must(t, err)
	ctx, leave := context.WithCancel(t.Context())
	var recs []*etcdtest.Recorder
	ended := make(chan error, inLine)
	for i := range inLine {
		rec := &etcdtest.Recorder{}
		recs = append(recs, rec)
		s := open(t, etcdtest.Shared(t).Client(t, rec.DialOptions()...), coord.SessionConfig{Root: root})
		must(t, rec.Wait(within(t), "Watch.create", 1)) // its own key
		go func() { _, err := coord.NewLock(s, "l").Acquire(ctx); ended <- err }()
		awaitWaiters(within(t), t, coord.NewLock(holder, "l"), i+1)
	}
	for i, rec := range recs {
		want := 1 + 2 // its own session; its entry and the one before it
		if i == 0 {
			want = 1 + 3 // its entry, the slot and the holder's session
		}
		must(t, rec.Wait(within(t), "Watch.create", want))
		if got := rec.Count("Watch.create"); got != want {
			t.Errorf("waiter %d: opened %d watches, want %d", i, got, want)
		}
		if got := rec.Unbounded(); len(got) > 0 {
			t.Errorf("waiter %d: calls without a deadline: %v", i, got)
		}
	}
	leave()
	for range inLine {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	must(t, h.Release(within(t)))
}

// A release whose caller has left is refused behind it, for a while: the claim is given up
// all the same, since no caller will.
func TestAReleaseGoesOnBehindItsCaller(t *testing.T) {
	t.Parallel()
	plan, root := &etcdtest.Plan{}, etcdtest.Root(t)
	s := open(t, etcdtest.Shared(t).Client(t, plan.DialOptions()...), coord.SessionConfig{Root: root, TTL: time.Minute})
	h, err := coord.NewLock(s, "deploy").Acquire(within(t))
	if err != nil {
		t.Fatal(err)
	}
	answer, denied := make(chan struct{}), 0
	plan.Set(func(c etcdtest.Call) etcdtest.Fate {
		if !c.Writes("/locks/") {
			return etcdtest.Fate{}
		}
		if denied++; denied > 3 {
			return etcdtest.Fate{}
		}
		return etcdtest.Fate{Hold: answer, Refuse: rpctypes.ErrGRPCPermissionDenied}
	})
	ctx, cancel := context.WithTimeout(within(t), 50*time.Millisecond)
	defer cancel()
	wantErr(t, "the caller that leaves", h.Release(ctx), coord.ErrUnknown)
	close(answer)
	done(t, "the hold is over", h.Done())
	st, err := line.LockState(within(t), inside.Of(s).Store(), "deploy")
	if err != nil || st.Owner != "" {
		t.Errorf("owned by %q, %v", st.Owner, err)
	}
}
