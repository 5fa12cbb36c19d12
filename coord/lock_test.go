package coord_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
)

// lockSession opens a session that the test closes.
func lockSession(t *testing.T, root string) *coord.Session {
	t.Helper()
	s, err := coord.OpenSession(t.Context(), etcdtest.Shared(t).Client(t), coord.SessionConfig{Root: root, TTL: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("close session: %v", err)
		}
	})
	return s
}

func TestSurvives_17_GoroutinesOfOneSessionExcludeEachOther(t *testing.T) {
	t.Parallel()
	root := etcdtest.Root(t)
	s := lockSession(t, root)
	client := etcdtest.Shared(t).Client(t)
	counter := "/counter" + root
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { increment(ctx, t, s, client, counter) })
	}
	wg.Wait()
	resp, err := client.Get(ctx, counter)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(resp.Kvs[0].Value); got != "50" {
		t.Errorf("counter is %s, want 50", got)
	}
	left, err := client.Get(ctx, root+"locks/", clientv3.WithPrefix())
	if err != nil || left.Count != 0 {
		t.Errorf("left behind: %v, %v", left.Kvs, err)
	}
}

// increment adds one to a counter under a lock, with a read that only the lock
// protects.
func increment(ctx context.Context, t *testing.T, s *coord.Session, client *clientv3.Client, counter string) {
	h, err := coord.NewLock(s, "deploy/prod").Acquire(ctx)
	if err != nil {
		t.Errorf("acquire: %v", err)
		return
	}
	resp, err := client.Get(ctx, counter)
	if err != nil {
		t.Error(err)
		return
	}
	n := 0
	if len(resp.Kvs) == 1 {
		n, _ = strconv.Atoi(string(resp.Kvs[0].Value))
	}
	if _, err := h.Commit(ctx, clientv3.OpPut(counter, strconv.Itoa(n+1))); err != nil {
		t.Errorf("commit: %v", err)
	}
	if err := h.Release(ctx); err != nil {
		t.Errorf("release: %v", err)
	}
}

func TestLockIsFIFOAndTryAcquireNeverOvertakes(t *testing.T) {
	t.Parallel()
	root := etcdtest.Root(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	first := lockSession(t, root)
	held, err := coord.NewLock(first, "l").Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	const n = 5
	order := make(chan int, n)
	var wg sync.WaitGroup
	for i := range n {
		s := lockSession(t, root)
		wg.Go(func() {
			h, err := coord.NewLock(s, "l").Acquire(ctx)
			if err != nil {
				t.Errorf("acquire: %v", err)
				return
			}
			order <- i
			if err := h.Release(ctx); err != nil {
				t.Errorf("release: %v", err)
			}
		})
		awaitWaiters(ctx, t, coord.NewLock(first, "l"), i+1)
	}
	if _, err := coord.NewLock(lockSession(t, root), "l").TryAcquire(ctx); !errors.Is(err, coord.ErrHeld) {
		t.Errorf("try: got %v, want ErrHeld", err)
	}
	if err := held.Release(ctx); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	for i := range n {
		if got := <-order; got != i {
			t.Errorf("waiter %d came as number %d", got, i)
		}
	}
}

// awaitWaiters blocks until n sessions wait.
func awaitWaiters(ctx context.Context, t *testing.T, l *coord.Lock, n int) {
	t.Helper()
	for {
		st, err := l.State(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(st.Waiters) == n {
			return
		}
	}
}

func TestLockOfADeadHolderGoesToTheNext(t *testing.T) {
	t.Parallel()
	root := etcdtest.Root(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client := etcdtest.Shared(t).Client(t)
	dead := lockSession(t, root)
	old, err := coord.NewLock(dead, "l").Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	heir := lockSession(t, root)
	got := make(chan *coord.Hold, 1)
	go func() {
		h, err := coord.NewLock(heir, "l").Acquire(ctx)
		if err != nil {
			t.Errorf("acquire: %v", err)
		}
		got <- h
	}()
	awaitWaiters(ctx, t, coord.NewLock(dead, "l"), 1)
	if _, err := client.Revoke(ctx, dead.Lease()); err != nil {
		t.Fatal(err)
	}
	h := <-got
	if h == nil {
		return
	}
	if h.Token() <= old.Token() {
		t.Errorf("token %s does not rise over %s", h.Token(), old.Token())
	}
	if _, err := old.Commit(ctx, clientv3.OpPut("/x"+root, "late")); !errors.Is(err, coord.ErrFenced) {
		t.Errorf("late commit: got %v, want ErrFenced", err)
	}
	<-old.Done()
	if err := old.Release(ctx); !errors.Is(err, coord.ErrFenced) {
		t.Errorf("late release: got %v, want ErrFenced", err)
	}
	if err := h.Release(ctx); err != nil {
		t.Error(err)
	}
}

func TestSemaphoreHoldsNoMoreThanItsPermits(t *testing.T) {
	t.Parallel()
	root := etcdtest.Root(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var mu sync.Mutex
	inside, most := 0, 0
	count := func(d int) {
		mu.Lock()
		defer mu.Unlock()
		inside += d
		most = max(most, inside)
	}
	var wg sync.WaitGroup
	for range 4 {
		s := lockSession(t, root)
		for range 5 {
			wg.Go(func() {
				h, err := coord.NewSemaphore(s, "gpu", 3).Acquire(ctx)
				if err != nil {
					t.Errorf("acquire: %v", err)
					return
				}
				count(+1)
				if err := h.Verify(ctx); err != nil {
					t.Errorf("verify: %v", err)
				}
				count(-1)
				if err := h.Release(ctx); err != nil {
					t.Errorf("release: %v", err)
				}
			})
		}
	}
	wg.Wait()
	if most > 3 {
		t.Errorf("%d held 3 permits", most)
	}
}

func TestAcquireReturnsByItsContextAndLeavesNothing(t *testing.T) {
	t.Parallel()
	root := etcdtest.Root(t)
	client := etcdtest.Shared(t).Client(t)
	holder := lockSession(t, root)
	h, err := coord.NewLock(holder, "l").Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	waiter := lockSession(t, root)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := coord.NewLock(waiter, "l").Acquire(ctx)
		done <- err
	}()
	awaitWaiters(t.Context(), t, coord.NewLock(holder, "l"), 1)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	awaitWaiters(t.Context(), t, coord.NewLock(holder, "l"), 0)
	if err := h.Release(t.Context()); err != nil {
		t.Error(err)
	}
	resp, err := client.Get(t.Context(), root+"locks/", clientv3.WithPrefix())
	if err != nil || resp.Count != 0 {
		t.Errorf("left behind: %v %v", resp, err)
	}
}
