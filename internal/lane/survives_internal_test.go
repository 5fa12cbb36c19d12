package lane

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
	"github.com/leasekit/leasekit/internal/faultkv"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// 50 owners, each with a claim of its own that every increment moves on.
func TestConcurrentIncrementsAreExact(t *testing.T) {
	const owners, rounds = 50, 200
	w := faultkv.NewWorld(t)
	c := committer(t, w)
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

// Claimers race for the same keys while answers get lost: each key is given to
// exactly one, and exactly that one is told so, never "lost" of its own success.
func TestSurvives_14_RetriedClaimSaysYoursOnce(t *testing.T) {
	t.Parallel()
	const claimers, keys = 8, 15
	w := faultkv.NewWorld(t)
	drops := faultkv.NewChaos(t, w)
	var yours [keys][claimers]string
	faultkv.Under(t, w, func() {
		var wg sync.WaitGroup
		for n := range claimers {
			c := committer(t, w)
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
	if drops.Dropped.Load() == 0 {
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
				c := openedCommitter(t, w)
				key, nonce := w.Data+"lock", keyspace.NewNonce()
				plan := func(n int) {
					if n == step {
						w.Faults(loss.Faults...)
					} else {
						w.Faults()
					}
				}
				plan(0)
				claimed := mustApply(t, c, etcdkv.Txn{
					If:   []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", 0)},
					Then: []clientv3.Op{clientv3.OpPut(key, laneValue(nonce))},
				})
				fence := etcdkv.Fence{Key: key, Token: claimed.Revision, Nonce: nonce}
				plan(1)
				mustApply(t, c, etcdkv.Txn{If: fence.Cmps(), Then: []clientv3.Op{clientv3.OpPut(w.Data+"effect", "")}})
				plan(2)
				mustApply(t, c, etcdkv.Txn{If: fence.Cmps(), Then: []clientv3.Op{clientv3.OpDelete(key)}})
				faultkv.WantVersions(t, w, map[string]int64{"lock": 0, "effect": 1})
				// Somebody else holds it by now; late originals harm neither.
				w.Put(t, "lock", laneValue(keyspace.NewNonce()))
				w.Deliver(t)
				faultkv.WantVersions(t, w, map[string]int64{"lock": 1, "effect": 1})
				_, err := c.Do(faultkv.Within(t), etcdkv.Txn{If: fence.Cmps(), Then: []clientv3.Op{clientv3.OpDelete(key)}})
				if err != nil && !errors.Is(err, fault.ErrFenced) {
					t.Error(err)
				}
				faultkv.WantVersions(t, w, map[string]int64{"lock": 1})
			})
		}
	}
}
