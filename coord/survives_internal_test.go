package coord

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

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

// 200 commits with random losses: each happens exactly once, its counter and its
// audit entry agree, and its caller is told so.
func TestSurvives_15_CountersAfterRandomDrops(t *testing.T) {
	t.Parallel()
	const workers, commits = 10, 20
	w := faultkv.NewWorld(t)
	s := sessionIn(t, w)
	drops := faultkv.NewChaos(t, w)
	faultkv.Under(t, w, func() {
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
	if drops.Dropped.Load() == 0 {
		t.Error("no answer was lost: the test shows nothing")
	}
}
