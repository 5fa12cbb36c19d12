package workqueue_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/workqueue"
)

// took collects durations. Safe for concurrent use.
type took struct {
	mu sync.Mutex
	d  []time.Duration
}

func (k *took) add(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.d = append(k.d, d)
}

// at is the duration below which a share of all lie.
func (k *took) at(share float64) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.d) == 0 {
		return 0
	}
	slices.Sort(k.d)
	return k.d[int(share*float64(len(k.d)-1))]
}

// 500 processes are cut off at once, each in the middle of ten jobs: their leases end
// together, every job is taken over, and each is worked by one of the others.
func TestSurvives_10_MassExpiry(t *testing.T) {
	const sessions, each = 500 / slower, 10
	c := etcdtest.New(t, etcdtest.Config{Proxies: true})
	cl, root := c.Client(t), etcdtest.Root(t)
	q := openAt(t, cl, workqueue.Config{Root: root})
	enqueue(t, q, numbered(sessions*each, workqueue.Params{MaxLosses: 50})...)
	mine := c.ProxiedClient(t)
	doomed := openAt(t, mine, workqueue.Config{Root: root})
	var wg sync.WaitGroup
	lost := make(chan struct{}, sessions)
	for s := range slices.Values(sessionsOf(t, mine, root, sessions)) {
		wg.Go(func() {
			for range each {
				// On a busy machine some end even before they are cut off: that counts too.
				if _, err := doomed.Claim(bounded(t), s); err != nil && s.Err() == nil {
					t.Error(err)
				}
			}
		})
		go func() { <-s.Done(); lost <- struct{}{} }()
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	runs, claims := &tally{}, &took{}
	for range 3 {
		run(t, openAt(t, c.Client(t), workqueue.Config{Root: root}), workqueue.WorkerConfig{
			Concurrency: 32, SessionTTL: 30 * time.Second,
			Hooks: workqueue.Hooks{Claimed: func(_ *workqueue.Job, d time.Duration) { claims.add(d) }},
		}, func(_ context.Context, c *workqueue.Claim) ([]byte, error) {
			runs.add(c.Job().ID)
			return nil, nil
		})
	}
	enqueue(t, q, workqueue.Params{ID: "serving"})
	wait(t, q, "serving") // by one who has seen them all alive
	c.Proxy(0).Pause()
	began, early := time.Now(), len(lost)
	for range sessions {
		receive(t, lost, "a cut-off session ends")
	}
	if err := q.WaitEmpty(bounded(t)); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d sessions had ended before; all is done %v after the cut; claims took %v at the median, %v at p99", early, time.Since(began), claims.at(.5), claims.at(.99))
	once(t, runs, sessions*each+1)
	if got := claims.at(.99); got > 30*time.Second {
		t.Errorf("claims took %v at p99", got)
	}
	c.Proxy(0).Heal() // for a quick end
}

// sessionsOf opens many sessions, some at a time.
func sessionsOf(t *testing.T, cl *clientv3.Client, root string, n int) []*coord.Session {
	t.Helper()
	all := make([]*coord.Session, n)
	var wg sync.WaitGroup
	for w := range 20 {
		wg.Go(func() {
			for i := w; i < n; i += 20 {
				s, err := coord.OpenSession(bounded(t), cl, coord.SessionConfig{Root: root, TTL: 12 * time.Second})
				if err != nil {
					t.Error(err)
					return
				}
				all[i] = s
			}
		})
	}
	wg.Wait()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		for _, s := range all {
			if s != nil {
				_ = s.Close(ctx) // most have ended
			}
		}
	})
	if t.Failed() {
		t.FailNow()
	}
	return all
}

// 10,000 jobs are in flight under one session. Its lease holds the session's key and
// the worker's registration, never a job, so ending it is one small write; and the
// jobs are given back, to be worked under the next session.
func TestSurvives_11_NoJobOnASessionLease(t *testing.T) {
	const jobs = 10_000 / slower
	c := etcdtest.New(t, etcdtest.Config{})
	cl, root := c.Client(t), etcdtest.Root(t)
	q := openAt(t, cl, workqueue.Config{Root: root})
	started := make(chan string, jobs)
	held := make(chan struct{})
	run(t, q, workqueue.WorkerConfig{Concurrency: jobs, SessionTTL: 30 * time.Second}, func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
		if c.Job().Attempt > 1 {
			return nil, nil
		}
		if strings.HasSuffix(c.Job().ID, "7") { // these have progress too
			if err := c.Checkpoint(ctx, []byte("x")); err != nil {
				return nil, err
			}
		}
		started <- c.Job().Owner
		select {
		case <-ctx.Done():
		case <-held:
		}
		return nil, ctx.Err()
	})
	enqueue(t, q, numbered(jobs, workqueue.Params{})...)
	var owner string
	for range jobs {
		owner = receive(t, started, "all jobs run")
	}
	space := keyspaceOf(t, root)
	session, err := cl.Get(bounded(t), space.Session(owner))
	if err != nil || len(session.Kvs) != 1 {
		t.Fatalf("session %s: %v, %v", owner, session, err)
	}
	lease := clientv3.LeaseID(session.Kvs[0].Lease)
	ttl, err := cl.TimeToLive(bounded(t), lease, clientv3.WithAttachedKeys())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range ttl.Keys {
		if string(key) != space.Session(owner) && string(key) != space.Queue("q").Worker(owner) {
			t.Errorf("%s hangs on the session's lease", key)
		}
	}
	live, err := cl.Get(bounded(t), space.Queue("q").Jobs(), clientv3.WithPrefix())
	if err != nil || len(live.Kvs) != jobs {
		t.Fatalf("%d live jobs, %v", len(live.Kvs), err)
	}
	for _, kv := range live.Kvs {
		if kv.Lease != 0 {
			t.Errorf("job %s hangs on a lease", kv.Key)
		}
	}
	began := time.Now()
	if _, err := cl.Revoke(bounded(t), lease); err != nil {
		t.Fatal(err)
	}
	// 50 ms on a quiet machine; with a key per job it would be one delete of 10,000. What
	// hangs on the lease was counted above: a busy machine proves nothing.
	t.Logf("revoking the lease took %v", time.Since(began))
	if err := q.WaitEmpty(bounded(t)); err != nil {
		t.Error(err)
	}
}

func keyspaceOf(t testing.TB, root string) keyspace.Keyspace {
	t.Helper()
	space, err := keyspace.New(root)
	if err != nil {
		t.Fatal(err)
	}
	return space
}

// A worker is woken at once, and misses nothing, while 200 others watch a busy prefix,
// with the values before each change, through its own client.
func TestSurvives_30_BusyNeighboursOfAWatch(t *testing.T) {
	const watchers, jobs = 200, 100
	c := etcdtest.New(t, etcdtest.Config{})
	shared, root, noise := c.Client(t), etcdtest.Root(t), etcdtest.Root(t)
	ctx, stop := context.WithCancel(bounded(t))
	var wg sync.WaitGroup
	defer func() { stop(); wg.Wait() }()
	seen := make(chan struct{}, 1)
	for i := range watchers {
		watch := shared.Watch(ctx, noise, clientv3.WithPrefix(), clientv3.WithPrevKV(), clientv3.WithCreatedNotify())
		<-watch
		wg.Go(func() {
			for range watch {
				if i == 0 {
					select {
					case seen <- struct{}{}:
					default:
					}
				}
			}
		})
	}
	wg.Go(func() { // as fast as one of the watchers hears of it
		value := string(bytes.Repeat([]byte("x"), 1<<10))
		writer := c.Client(t)
		for n := 0; ctx.Err() == nil; n++ {
			if _, err := writer.Put(ctx, noise+itoa(n%50), value); err != nil {
				return
			}
			select {
			case <-seen:
			case <-ctx.Done():
			}
		}
	})
	started := make(chan time.Time, jobs)
	q := openAt(t, shared, workqueue.Config{Root: root})
	run(t, q, workqueue.WorkerConfig{SessionTTL: 30 * time.Second}, func(context.Context, *workqueue.Claim) ([]byte, error) {
		started <- time.Now()
		return nil, nil
	})
	others := openAt(t, c.Client(t), workqueue.Config{Root: root})
	picked := &took{}
	for i := range jobs {
		began := time.Now()
		enqueue(t, others, workqueue.Params{ID: "j" + itoa(i)})
		picked.add(receive(t, started, "the job is picked up").Sub(began))
	}
	t.Logf("picked up after %v at the median, %v at p99", picked.at(.5), picked.at(.99))
	if got := picked.at(.99); got > 20*time.Second {
		t.Errorf("picked up after %v at p99", got)
	}
	if err := others.WaitEmpty(bounded(t)); err != nil {
		t.Error(err)
	}
}

// What is too large is refused before anything is sent, with what would do. Many jobs
// are enqueued and handed out in as many requests as it takes.
func TestSurvives_40_TooLargeAndTooMany(t *testing.T) {
	const jobs = 5000 / slower
	c := etcdtest.New(t, etcdtest.Config{})
	cl, root := c.Client(t), etcdtest.Root(t)
	var rec etcdtest.Recorder
	q := openAt(t, c.Client(t, rec.DialOptions()...), workqueue.Config{Root: root})
	for name, p := range map[string]workqueue.Params{
		"2 MiB":       {Payload: make([]byte, 2<<20)},
		"257 KiB":     {Payload: make([]byte, 257<<10)},
		"33 labels":   {Labels: manyLabels(33)},
		"a long id":   {ID: string(bytes.Repeat([]byte("x"), 201))},
		"a long kind": {Kind: string(bytes.Repeat([]byte("x"), 201))},
	} {
		if _, err := q.Enqueue(bounded(t), p); !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", name, err)
		}
	}
	if n := rec.Count("Txn"); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
	setMode(t, q, "dispatch")
	enqueue(t, q, numbered(jobs, workqueue.Params{})...)
	t.Logf("%d jobs in %d requests", jobs, rec.Count("Txn"))
	if n := rec.Count("Txn"); n < jobs/112 || n > jobs { // 112 units are a batch
		t.Errorf("%d jobs were enqueued by %d requests", jobs, n)
	}
	runs := &tally{}
	dispatch(t, cl, root, workqueue.DispatcherConfig{Prefetch: 64})
	for range 2 {
		run(t, openAt(t, cl, workqueue.Config{Root: root}), workqueue.WorkerConfig{Concurrency: 64, SessionTTL: 30 * time.Second}, counting(runs))
	}
	if err := q.WaitEmpty(bounded(t)); err != nil {
		t.Fatal(err)
	}
	once(t, runs, jobs)
}

// The limit of operations in one request, met by what a caller adds to a completion.
func TestSurvives_40_TooManyOps(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := openAt(t, cl, workqueue.Config{Root: root})
	enqueue(t, q, workqueue.Params{ID: "ops"})
	cm := claim(t, cl, root, q, session(t, cl, root))
	var ops []clientv3.Op
	for i := range 129 {
		ops = append(ops, clientv3.OpPut("/elsewhere"+root+itoa(i), ""))
	}
	for _, n := range []int{129, 61} {
		if err := cm.CompleteWith(bounded(t), nil, ops[:n]...); !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("%d ops: got %v, want ErrInvalid", n, err)
		}
	}
	if err := cm.CompleteWith(bounded(t), nil, ops[:60]...); err != nil {
		t.Errorf("60 ops: %v", err)
	}
}

func manyLabels(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m["l"+itoa(i)] = ""
	}
	return m
}

// A claim from 50,000 waiting jobs costs about what it costs from 100. That no request
// sorts or compares a large prefix is tested where all requests are looked at.
func TestSurvives_41_LongQueue(t *testing.T) {
	const short, long, claims = 100, 50_000 / slower, 60
	c := etcdtest.New(t, etcdtest.Config{})
	cl := c.Client(t)
	median := func(jobs int) time.Duration {
		root := etcdtest.Root(t)
		// All at once, so that the next measurement does not share the machine.
		q, s := openAt(t, cl, workqueue.Config{Root: root}), session(t, cl, root)
		began := time.Now()
		enqueue(t, q, numbered(jobs, workqueue.Params{})...)
		enqueued := time.Now()
		claim(t, cl, root, q, s) // the mirror lists
		t.Logf("%d jobs: enqueued in %v, the first claim came %v later", jobs, enqueued.Sub(began), time.Since(enqueued))
		each := &took{}
		for range claims {
			began := time.Now()
			if _, err := q.Claim(bounded(t), s); err != nil {
				t.Fatal(err)
			}
			each.add(time.Since(began))
		}
		t.Logf("%d jobs: a claim takes %v at the median, %v at p90", jobs, each.at(.5), each.at(.9))
		return each.at(.5)
	}
	few := median(short)
	// The slack is for a busy machine: a claim that reads the queue takes 100 ms and more.
	if many := median(long); many > 3*few+20*time.Millisecond {
		t.Errorf("a claim takes %v from %d jobs and %v from %d", many, long, few, short)
	}
}
