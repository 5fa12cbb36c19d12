package coord

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/faultkv"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// sessions numbers the sessions of the tests, so that each has lanes of its own name.
var sessions atomic.Int64

// sessionIn opens a session whose writes meet w's faults.
func sessionIn(t *testing.T, w *faultkv.World) *Session {
	t.Helper()
	s, err := openSession(faultkv.Within(t), w.Store, SessionConfig{Identity: fmt.Sprint("test-", sessions.Add(1))}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.PlanBy(nil)
		ctx, cancel := context.WithTimeout(context.Background(), faultkv.Deadline)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("close session: %v", err)
		}
	})
	return s
}

// claimIn puts a record as a claim would and returns its fence.
func claimIn(t *testing.T, w *faultkv.World, name string) Fence {
	t.Helper()
	nonce := keyspace.NewNonce()
	rev := w.Put(t, name, `{"w":"`+nonce+`","owner":"test"}`)
	return Fence{Key: w.Data + name, Token: Token(rev), Nonce: nonce}
}

// A commit under a lock writes other keys than the lock: its own success does not
// falsify its guard, so only the lane keeps a repeat from happening twice.
func TestCommitUnderALockHappensOnce(t *testing.T) {
	t.Parallel()
	for _, loss := range faultkv.Lossy {
		t.Run(loss.Name, func(t *testing.T) {
			t.Parallel()
			w := faultkv.NewWorld(t)
			s := sessionIn(t, w)
			lock := claimIn(t, w, "lock")
			commit := func() (Result, error) {
				return s.Commit(faultkv.Within(t), []Fence{lock}, clientv3.OpPut(w.Data+"effect", ""))
			}
			if _, err := commit(); err != nil { // opens the lane
				t.Fatal(err)
			}
			for n := int64(2); n <= 4; n++ {
				w.Faults(loss.Faults...)
				res, err := commit()
				if err != nil {
					t.Fatal(err)
				}
				w.Deliver(t)
				resp, err := w.Client.Get(faultkv.Within(t), w.Data+"effect")
				if err != nil || resp.Kvs[0].Version != n || resp.Kvs[0].ModRevision != res.Revision {
					t.Fatalf("effect: got %v %v, want version %d at %d", resp, err, n, res.Revision)
				}
			}
			// And a refusal is told as one.
			claimIn(t, w, "lock")
			w.Faults(loss.Faults...)
			_, err := commit()
			faultkv.WantErr(t, err, ErrFenced)
			w.Deliver(t)
			faultkv.WantVersions(t, w, map[string]int64{"effect": 4})
		})
	}
}

// 50 owners, each with a claim of its own that every increment moves on.
func TestConcurrentIncrementsAreExact(t *testing.T) {
	const owners, rounds = 50, 200
	w := faultkv.NewWorld(t)
	c := ownCommitter(t, w)
	var wg sync.WaitGroup
	for n := range owners {
		wg.Go(func() {
			key := fmt.Sprintf("%s%d", w.Data, n)
			fence := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", 0)}
			for i := range rounds {
				nonce := keyspace.NewNonce()
				r, err := c.Do(faultkv.Within(t), etcdkv.Txn{
					If:   fence,
					Then: []clientv3.Op{clientv3.OpPut(key, fmt.Sprintf(`{"w":"%s","n":%d}`, nonce, i))},
				})
				if err != nil || !r.Succeeded {
					t.Errorf("owner %d, round %d: got succeeded %v, error %v", n, i, r.Succeeded, err)
					return
				}
				fence = etcdkv.GuardOf(key, r.Revision, nonce)
			}
		})
	}
	wg.Wait()
	for n := range owners {
		if got := w.Version(t, strconv.Itoa(n)); got != rounds {
			t.Errorf("owner %d: got %d increments, want %d", n, got, rounds)
		}
	}
	if got := c.Flights(); got >= owners*rounds {
		t.Errorf("%d requests for %d Txns: nothing shared a batch", got, owners*rounds)
	}
}

// chaos plans a random fate for every Txn, from a seed that it prints.
type chaos struct {
	mu      sync.Mutex
	rng     *rand.Rand
	dropped atomic.Int64
}

func newChaos(t *testing.T, w *faultkv.World) *chaos {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := &chaos{rng: rand.New(rand.NewPCG(seed, 0))}
	w.PlanBy(func(int, etcdkv.Txn) faultkv.Fate {
		c.mu.Lock()
		defer c.mu.Unlock()
		drawn := c.rng.IntN(100)
		if drawn < 45 {
			c.dropped.Add(1)
		}
		switch {
		case drawn < 25:
			return faultkv.Fate{Lose: faultkv.ErrLost}
		case drawn < 35:
			return faultkv.Fate{Refuse: faultkv.ErrLost}
		case drawn < 45:
			return faultkv.Fate{Late: true}
		}
		return faultkv.Fate{}
	})
	return c
}

// arrivals delivers late originals again and again until stop is closed.
func arrivals(t *testing.T, w *faultkv.World, stop <-chan struct{}) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		w.Arrive(t)
		select {
		case <-stop:
			w.Deliver(t) // nobody waits for anything any more
			return
		case <-tick.C:
		}
	}
}

// under runs fn while late originals arrive.
func under(t *testing.T, w *faultkv.World, fn func()) {
	t.Helper()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { arrivals(t, w, stop) })
	fn()
	close(stop)
	wg.Wait()
}

// 200 commits with random losses: each happens exactly once, its counter and its
// audit entry agree, and its caller is told so.
func TestSurvives_15_CountersAfterRandomDrops(t *testing.T) {
	t.Parallel()
	const workers, commits = 10, 20
	w := faultkv.NewWorld(t)
	s := sessionIn(t, w)
	drops := newChaos(t, w)
	under(t, w, func() {
		var wg sync.WaitGroup
		for n := range workers {
			job := claimIn(t, w, fmt.Sprintf("job-%d", n))
			wg.Go(func() {
				for i := range commits {
					res, err := s.Commit(faultkv.Within(t), []Fence{job},
						clientv3.OpPut(fmt.Sprintf("%scounter-%d", w.Data, n), strconv.Itoa(i+1)),
						clientv3.OpPut(fmt.Sprintf("%saudit-%d/%03d", w.Data, n, i), ""))
					if err != nil {
						t.Errorf("worker %d, commit %d: %v", n, i, err)
						continue
					}
					resp, err := w.Client.Get(faultkv.Within(t), fmt.Sprintf("%saudit-%d/%03d", w.Data, n, i))
					if err != nil || len(resp.Kvs) != 1 || resp.Kvs[0].ModRevision != res.Revision || resp.Kvs[0].Version != 1 {
						t.Errorf("worker %d, audit %d: got %v %v, want version 1 at %d", n, i, resp, err, res.Revision)
					}
				}
			})
		}
		wg.Wait()
	})
	for n := range workers {
		faultkv.WantVersions(t, w, map[string]int64{fmt.Sprintf("counter-%d", n): commits})
		resp, err := w.Client.Get(faultkv.Within(t), fmt.Sprintf("%saudit-%d/", w.Data, n), clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil || resp.Count != commits {
			t.Errorf("worker %d: got %v audit entries, error %v, want %d", n, resp.Count, err, commits)
		}
	}
	if drops.dropped.Load() == 0 {
		t.Error("no answer was lost: the test shows nothing")
	}
}

// Claimers race for the same keys while answers get lost: each key is given to
// exactly one, and exactly that one is told so, never "lost" of its own success.
func TestSurvives_14_RetriedClaimSaysYoursOnce(t *testing.T) {
	t.Parallel()
	const claimers, keys = 8, 15
	w := faultkv.NewWorld(t)
	drops := newChaos(t, w)
	var yours [keys][claimers]string
	under(t, w, func() {
		var wg sync.WaitGroup
		for n := range claimers {
			c := ownCommitter(t, w)
			wg.Go(func() {
				for k := range keys {
					key, nonce := fmt.Sprintf("%s%d", w.Data, k), keyspace.NewNonce()
					r, err := c.Do(faultkv.Within(t), etcdkv.Txn{
						If:   []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", 0)},
						Then: []clientv3.Op{clientv3.OpPut(key, keyspace.Head(nonce)+"}")},
						Else: []clientv3.Op{clientv3.OpGet(key)},
					})
					switch {
					case err != nil:
						t.Errorf("claimer %d, key %d: %v", n, k, err)
					case r.Succeeded:
						yours[k][n] = nonce
					case r.Get(0) == nil || keyspace.NonceOf(r.Get(0).Value) == nonce:
						t.Errorf("claimer %d, key %d: lost against %v", n, k, r.Get(0))
					}
				}
			})
		}
		wg.Wait()
	})
	for k := range keys {
		resp, err := w.Client.Get(faultkv.Within(t), fmt.Sprintf("%s%d", w.Data, k))
		if err != nil || len(resp.Kvs) != 1 {
			t.Fatalf("key %d: got %v %v", k, resp, err)
		}
		told := 0
		for _, nonce := range yours[k] {
			if nonce != "" {
				told++
				if keyspace.NonceOf(resp.Kvs[0].Value) != nonce {
					t.Errorf("key %d: told yours, but it is another's", k)
				}
			}
		}
		if told != 1 || resp.Kvs[0].Version != 1 {
			t.Errorf("key %d: %d were told yours, it was put %d times; want 1 and 1", k, told, resp.Kvs[0].Version)
		}
	}
	if drops.dropped.Load() == 0 {
		t.Error("no answer was lost: the test shows nothing")
	}
}

// The life of a claim (claim, commit, release by delete) with each step's answer
// lost in turn, in every way: what the caller is told is what etcd shows.
func TestSurvives_13_LostAnswersAtEveryStep(t *testing.T) {
	t.Parallel()
	for _, loss := range faultkv.Lossy {
		for step := range 3 {
			t.Run(fmt.Sprintf("%s at step %d", loss.Name, step), func(t *testing.T) {
				t.Parallel()
				w := faultkv.NewWorld(t)
				c := usedCommitter(t, w)
				key, nonce := w.Data+"lock", keyspace.NewNonce()
				plan := func(n int) {
					if n == step {
						w.Faults(loss.Faults...)
					} else {
						w.Faults()
					}
				}
				plan(0)
				claimed := applied(t, c, etcdkv.Txn{
					If:   []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", 0)},
					Then: []clientv3.Op{clientv3.OpPut(key, keyspace.Head(nonce)+"}")},
				})
				fence := Fence{Key: key, Token: Token(claimed.Revision), Nonce: nonce}
				plan(1)
				applied(t, c, etcdkv.Txn{If: fence.Cmps(), Then: []clientv3.Op{clientv3.OpPut(w.Data+"effect", "")}})
				plan(2)
				applied(t, c, etcdkv.Txn{If: fence.Cmps(), Then: []clientv3.Op{clientv3.OpDelete(key)}})
				faultkv.WantVersions(t, w, map[string]int64{"lock": 0, "effect": 1})
				// Somebody else holds it by now; late originals harm neither.
				claimIn(t, w, "lock")
				w.Deliver(t)
				faultkv.WantVersions(t, w, map[string]int64{"lock": 1, "effect": 1})
				_, err := c.Do(faultkv.Within(t), etcdkv.Txn{If: fence.Cmps(), Then: []clientv3.Op{clientv3.OpDelete(key)}})
				if err != nil && !errors.Is(err, ErrFenced) {
					t.Error(err)
				}
				faultkv.WantVersions(t, w, map[string]int64{"lock": 1})
			})
		}
	}
}
