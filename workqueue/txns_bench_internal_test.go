package workqueue

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/inside"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/lane"
)

// aloneJobs is how many jobs go through their lives together: as many as a batch holds.
const aloneJobs = 112

// alonePayload is 200 bytes, as JSON.
var alonePayload = []byte(`"` + strings.Repeat("x", 198) + `"`)

// BenchmarkTxnsAlone is what etcd gives for the Txns of a job's life with nothing
// around them: no mirror, no handlers, no producers that wait for their answers, one
// watcher that decodes nothing. Each committer puts a batch of jobs through enqueue,
// claim and complete, as fast as it can. The rate of `leasectl bench e2e` is to be
// compared with it: what is between the two is ours to save, the rest lies in the
// Txns. Ratio is to raw puts of 64 callers in the same run, median of five rounds.
func BenchmarkTxnsAlone(b *testing.B) {
	for _, committers := range []int{1, 2, 4, 8} {
		b.Run(fmt.Sprintf("committers=%d", committers), func(b *testing.B) { benchTxnsAlone(b, committers) })
	}
}

func benchTxnsAlone(b *testing.B, committers int) {
	root, client := etcdtest.Root(b), etcdtest.Shared(b).Client(b)
	lives := newLives(b, client, root, committers)
	var rates, ratios []float64
	b.ResetTimer()
	for round := range 5 {
		b.StopTimer()
		raw := rawPutsPerSecond(b, client, fmt.Sprintf("%s-raw/%d/", strings.TrimSuffix(root, "/"), round), max(b.N/5, 5000))
		b.StartTimer()
		rate := lives.perSecond(b, max(b.N/5, aloneJobs))
		rates, ratios = append(rates, rate), append(ratios, rate/raw)
	}
	b.StopTimer()
	slices.Sort(rates)
	slices.Sort(ratios)
	b.ReportMetric(rates[2], "jobs/s")
	b.ReportMetric(ratios[2], "ratio")
}

// rawPutsPerSecond is the rate of n plain puts of 64 callers.
func rawPutsPerSecond(b *testing.B, client *clientv3.Client, prefix string, n int) float64 {
	b.Helper()
	value := string(alonePayload)
	var next atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for range 64 {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				if _, err := client.Put(b.Context(), prefix+strconv.FormatInt(i, 10), value); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return float64(n) / time.Since(began).Seconds()
}

// lives puts jobs through their lives by the queue's own Txns.
type lives struct {
	txns       job.Txns
	session    *coord.Session
	retention  clientv3.LeaseID
	committers []*lane.Committer
}

func newLives(b *testing.B, client *clientv3.Client, root string, committers int) *lives {
	b.Helper()
	s, err := coord.OpenSession(b.Context(), client, coord.SessionConfig{Root: root})
	if err != nil {
		b.Fatal(err)
	}
	store, err := etcdkv.NewStore(client, root, nil)
	if err != nil {
		b.Fatal(err)
	}
	l := &lives{txns: job.Txns{Keys: store.Keys().Queue("alone"), Space: store.Keys()}, session: s}
	if l.retention, _, err = store.Grant(b.Context(), time.Hour); err != nil {
		b.Fatal(err)
	}
	for i := range committers {
		l.committers = append(l.committers, lane.NewCommitter(store, "alone-"+strconv.Itoa(i)))
	}
	ctx, cancel := context.WithCancel(b.Context())
	var watching sync.WaitGroup
	// From now on: what is older may be compacted.
	events := store.Watch(ctx, root, 0, clientv3.WithPrefix())
	watching.Go(func() {
		for resp := range events {
			if err := resp.Err(); err != nil && ctx.Err() == nil {
				b.Errorf("watch: %v", err)
			}
		}
	})
	b.Cleanup(func() {
		ctx := context.WithoutCancel(b.Context())
		for _, c := range l.committers {
			if err := c.Close(ctx); err != nil {
				b.Error(err)
			}
		}
		if err := s.Close(ctx); err != nil {
			b.Error(err)
		}
		if err := store.Revoke(ctx, l.retention); err != nil {
			b.Error(err)
		}
		cancel()
		watching.Wait()
	})
	return l
}

// perSecond puts n jobs, rounded up to full batches, through their lives.
func (l *lives) perSecond(b *testing.B, n int) float64 {
	b.Helper()
	batches := (n + aloneJobs - 1) / aloneJobs
	var next atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for _, c := range l.committers {
		wg.Go(func() {
			for next.Add(1) <= int64(batches) {
				if err := l.live(b.Context(), c); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return float64(batches*aloneJobs) / time.Since(began).Seconds()
}

// live puts one batch of jobs through their lives.
func (l *lives) live(ctx context.Context, c *lane.Committer) error {
	jobs := make([]job.Snapshot, aloneJobs)
	for i := range jobs {
		jobs[i] = job.Snapshot{Record: job.New(job.Description{ID: keyspace.NewNonce(), Payload: alonePayload}, uint64(i), time.Now())}
	}
	for _, step := range []lifeStep{l.enqueue, l.claim, l.complete} {
		if err := commitAll(ctx, c, jobs, step); err != nil {
			return err
		}
	}
	return nil
}

// lifeStep is one step in a job's life: what the job is afterwards, and the Txn.
type lifeStep func(job.Snapshot) (job.Snapshot, etcdkv.Txn, error)

func (l *lives) enqueue(at job.Snapshot) (job.Snapshot, etcdkv.Txn, error) {
	txn, err := l.txns.Enqueue(at.Record, nil, job.EnqueueSeen{Drawn: true})
	return at, txn, err
}

func (l *lives) claim(at job.Snapshot) (job.Snapshot, etcdkv.Txn, error) {
	me := job.Owner{ID: l.session.ID(), Rev: inside.Of(l.session).CreateRevision()}
	n, err := job.Transition(at.Record, at.Where, job.Event{Verb: job.VerbClaim, Now: time.Now(), Nonce: keyspace.NewNonce(), Owner: me.ID, OwnerRev: me.Rev})
	if err != nil {
		return at, etcdkv.Txn{}, err
	}
	txn, err := l.txns.Claim(at, n, me, 0)
	return job.Snapshot{Record: n.Record, Where: n.Where}, txn, err
}

func (l *lives) complete(at job.Snapshot) (job.Snapshot, etcdkv.Txn, error) {
	token := job.Token(at.Rev)
	n, err := job.Transition(at.Record, at.Where, job.Event{Verb: job.VerbComplete, Now: time.Now(), Nonce: keyspace.NewNonce(), Token: token})
	if err != nil {
		return at, etcdkv.Txn{}, err
	}
	f := etcdkv.Fence{Key: l.txns.Keys.Job(at.Record.ID), Token: int64(token), Nonce: at.Record.Nonce}
	txn, err := l.txns.Close(f, at, n, l.retention)
	return job.Snapshot{Record: n.Record, Where: n.Where}, txn, err
}

// commitAll makes one step with each job. The first leaves at once, the others fill the
// next flight.
func commitAll(ctx context.Context, c *lane.Committer, jobs []job.Snapshot, step lifeStep) error {
	pending := make([]*lane.Pending, len(jobs))
	for i := range jobs {
		var txn etcdkv.Txn
		var err error
		if jobs[i], txn, err = step(jobs[i]); err != nil {
			return err
		}
		pending[i] = c.Go(txn)
	}
	for i, p := range pending {
		r, err := p.Wait(ctx)
		if err != nil {
			return err
		}
		if !r.Succeeded {
			return fmt.Errorf("job %s: %w", jobs[i].Record.ID, coord.ErrRefused)
		}
		jobs[i].Rev = r.Revision
	}
	return nil
}
