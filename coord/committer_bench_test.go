package coord_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/lane"
)

const benchCallers = 64

// callers runs n calls of fn spread over 64 goroutines and returns the rate.
func callers(b *testing.B, n int, fn func(caller, i int) error) float64 {
	b.Helper()
	var (
		next atomic.Int64
		wg   sync.WaitGroup
	)
	start := time.Now()
	for caller := range benchCallers {
		wg.Go(func() {
			for i := 0; next.Add(1) <= int64(n); i++ {
				if err := fn(caller, i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return float64(n) / time.Since(start).Seconds()
}

// value is 200 bytes, as a small job's record.
var value = fmt.Sprintf("%0177d", 0)

func rawPuts(b *testing.B, cl *clientv3.Client, root string, n int) float64 {
	return callers(b, n, func(caller, _ int) error {
		_, err := cl.Put(b.Context(), fmt.Sprintf("%sraw/%d", root, caller), recordOf(midNonce)[:23]+value)
		return err
	})
}

func guardedPuts(b *testing.B, c *lane.Committer, root string, n int) float64 {
	type claim struct {
		rev   int64
		nonce string
	}
	claims := make([]claim, benchCallers)
	return callers(b, n, func(caller, _ int) error {
		key, nonce := fmt.Sprintf("%sguarded/%d", root, caller), keyspace.NewNonce()
		r, err := c.Do(b.Context(), etcdkv.Txn{
			If:   guard(key, claims[caller].rev, claims[caller].nonce),
			Then: []clientv3.Op{clientv3.OpPut(key, `{"w":"`+nonce+`"`+value)},
		})
		if err == nil && !r.Succeeded {
			err = coord.ErrRefused
		}
		claims[caller] = claim{r.Revision, nonce}
		return err
	})
}

func benchClient(b *testing.B) (*clientv3.Client, string) {
	return etcdtest.Shared(b).Client(b), etcdtest.Root(b)
}

// BenchmarkRawPut is what etcd gives to 64 callers without us.
func BenchmarkRawPut(b *testing.B) {
	cl, root := benchClient(b)
	b.ResetTimer()
	b.ReportMetric(rawPuts(b, cl, root, b.N), "puts/s")
}

// BenchmarkCommitter is what 64 callers get through one committer, each unit a
// put under a guard. Ratio is to raw puts on the same server in between, median
// of five.
func BenchmarkCommitter(b *testing.B) {
	cl, root := benchClient(b)
	store, err := etcdkv.NewStore(cl, root+"leasekit/", nil)
	if err != nil {
		b.Fatal(err)
	}
	c := lane.NewCommitter(store, "bench")
	defer c.Close(context.WithoutCancel(b.Context()))
	guardedPuts(b, c, root+"warm/", benchCallers)
	before := c.Flights()
	var ratios, rates []float64
	b.ReportAllocs()
	b.ResetTimer()
	for round := range 5 {
		b.StopTimer()
		raw := rawPuts(b, cl, root, max(b.N/20, 500))
		b.StartTimer()
		rate := guardedPuts(b, c, fmt.Sprintf("%s%d/", root, round), max(b.N/5, 1))
		ratios, rates = append(ratios, rate/raw), append(rates, rate)
	}
	slices.Sort(ratios)
	slices.Sort(rates)
	b.ReportMetric(rates[2], "units/s")
	b.ReportMetric(ratios[2], "ratio")
	b.ReportMetric(float64(b.N)/float64(c.Flights()-before), "units/flight")
}

// guard holds while the key is as it was written last, or was never written.
func guard(key string, rev int64, nonce string) []clientv3.Cmp {
	if rev == 0 {
		return []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", 0)}
	}
	return coord.Fence{Key: key, Token: coord.Token(rev), Nonce: nonce}.Cmps()
}
