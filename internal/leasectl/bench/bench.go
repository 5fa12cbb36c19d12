// Package bench measures Leasekit against raw etcd, both in one run, because
// absolute rates say more about the machine than about the code.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/child"
	"github.com/leasekit/leasekit/workqueue"
)

// Options are what e2e can be told.
type Options struct {
	// Jobs is how many jobs go through their life in each round.
	Jobs int
	// Producers is how many callers enqueue, one job per call.
	Producers int
	// Workers is how many worker processes there are, of Concurrency handlers each.
	Workers, Concurrency int
	// Rounds is how often it is all measured; medians are reported.
	Rounds int
	// Dial makes a client with these extra options.
	Dial func(opts ...grpc.DialOption) (*clientv3.Client, error)
	// WorkerArgs run a worker process, with WorkerEnv to reach etcd; the root, the
	// concurrency and the queue are appended.
	WorkerArgs, WorkerEnv []string
	// ErrOut gets the children's stderr, Note one line per finished part.
	ErrOut io.Writer
	Note   func(format string, args ...any)
}

// Report is what e2e found: medians over the rounds.
type Report struct {
	Jobs        int     `json:"jobs"`
	Producers   int     `json:"producers"`
	Workers     int     `json:"workers"`
	Concurrency int     `json:"concurrency"`
	Rounds      int     `json:"rounds"`
	RawPuts     float64 `json:"raw_puts_per_s"`
	Rate        float64 `json:"jobs_per_s"`
	Ratio       float64 `json:"ratio"`
	Txns        float64 `json:"txns_per_job"`
	Conflicts   float64 `json:"conflicts_per_job"`
	ClaimP50    float64 `json:"claim_p50_ms"`
	ClaimP99    float64 `json:"claim_p99_ms"`
	PickupP50   float64 `json:"pickup_p50_ms"`
	PickupP99   float64 `json:"pickup_p99_ms"`
	RunTwice    int     `json:"run_twice"`
}

// payload is 200 bytes, as JSON.
var payload = []byte(`{"pad":"` + strings.Repeat("x", 190) + `"}`)

// E2E measures the full life of jobs, and raw puts, in interleaved rounds. It
// blocks until all is measured or ctx ends, and leaves its keys deleted.
func E2E(ctx context.Context, o Options) (Report, error) {
	var rounds []Report
	for i := range o.Rounds {
		raw, err := rawPuts(ctx, o)
		if err != nil {
			return Report{}, fmt.Errorf("measure raw puts: %w", err)
		}
		o.Note("round %d: raw puts, 64 callers: %.0f per s", i+1, raw)
		r, err := life(ctx, o)
		if err != nil {
			return Report{}, fmt.Errorf("measure job lives: %w", err)
		}
		r.RawPuts, r.Ratio = raw, r.Rate/raw
		o.Note("round %d: %d jobs: %.0f per s, ratio %.2f", i+1, o.Jobs, r.Rate, r.Ratio)
		rounds = append(rounds, r)
	}
	return medians(o, rounds), nil
}

// rawPuts is the rate of plain puts of 200 bytes with 64 callers.
func rawPuts(ctx context.Context, o Options) (float64, error) {
	client, err := o.Dial()
	if err != nil {
		return 0, err
	}
	defer client.Close()
	prefix := "/leasekit-bench-raw-" + keyspace.NewNonce() + "/"
	defer wipe(client, prefix)
	const callers = 64
	puts := max(o.Jobs, 1)
	var next, failed atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for range callers {
		wg.Go(func() {
			for n := next.Add(1); n <= int64(puts) && ctx.Err() == nil; n = next.Add(1) {
				if _, err := client.Put(ctx, prefix+strconv.FormatInt(n, 10), string(payload)); err != nil {
					failed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	if n := failed.Load(); n > 0 {
		return 0, fmt.Errorf("%d of %d puts failed", n, puts)
	}
	return float64(puts) / took.Seconds(), ctx.Err()
}

// life runs one round of job lives: producers and workers at the same time, from
// the first enqueue to the last accepted completion.
func life(ctx context.Context, o Options) (Report, error) {
	var txns atomic.Int64
	client, err := o.Dial(grpc.WithChainUnaryInterceptor(countTxns(&txns)))
	if err != nil {
		return Report{}, err
	}
	defer client.Close()
	root := "/leasekit-bench-" + keyspace.NewNonce() + "/"
	defer wipe(client, root)
	const queue = "e2e"
	workers, err := startWorkers(ctx, o, root, queue)
	if err != nil {
		return Report{}, err
	}
	defer workers.stop()
	q, err := workqueue.Open(ctx, client, workqueue.Config{Queue: queue, Root: root})
	if err != nil {
		return Report{}, err
	}
	defer q.Close()
	began := time.Now()
	if err := produce(ctx, o, q); err != nil {
		return Report{}, err
	}
	if err := workers.await(ctx, o.Jobs); err != nil {
		return Report{}, err
	}
	total, err := workers.results()
	if err != nil {
		return Report{}, err
	}
	n := float64(o.Jobs)
	return Report{
		Rate: n / total.Last.Sub(began).Seconds(), Txns: float64(txns.Load()+total.Txns) / n,
		Conflicts: float64(total.Missed) / n, RunTwice: total.Completed - o.Jobs,
		ClaimP50: percentile(total.Claims, 50), ClaimP99: percentile(total.Claims, 99),
		PickupP50: percentile(total.Pickups, 50), PickupP99: percentile(total.Pickups, 99),
	}, nil
}

// produce enqueues all jobs, one per call, with o.Producers callers.
func produce(ctx context.Context, o Options, q *workqueue.Queue) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, o.Producers)
	for range o.Producers {
		wg.Go(func() {
			for n := next.Add(1); n <= int64(o.Jobs); n = next.Add(1) {
				if _, err := q.Enqueue(ctx, workqueue.Params{Payload: payload}); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}

func countTxns(n *atomic.Int64) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if method == "/etcdserverpb.KV/Txn" {
			n.Add(1)
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
}

// wipe deletes what a round left, best effort.
func wipe(client *clientv3.Client, prefix string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, _ = client.Delete(ctx, prefix, clientv3.WithPrefix())
}

func medians(o Options, rounds []Report) Report {
	pick := func(f func(Report) float64) float64 {
		var all []float64
		for _, r := range rounds {
			all = append(all, f(r))
		}
		return median(all)
	}
	twice := 0
	for _, r := range rounds {
		twice += r.RunTwice
	}
	return Report{
		Jobs: o.Jobs, Producers: o.Producers, Workers: o.Workers, Concurrency: o.Concurrency, Rounds: len(rounds),
		RawPuts: pick(func(r Report) float64 { return r.RawPuts }), Rate: pick(func(r Report) float64 { return r.Rate }),
		Ratio: pick(func(r Report) float64 { return r.Ratio }), Txns: pick(func(r Report) float64 { return r.Txns }),
		Conflicts: pick(func(r Report) float64 { return r.Conflicts }),
		ClaimP50:  pick(func(r Report) float64 { return r.ClaimP50 }), ClaimP99: pick(func(r Report) float64 { return r.ClaimP99 }),
		PickupP50: pick(func(r Report) float64 { return r.PickupP50 }), PickupP99: pick(func(r Report) float64 { return r.PickupP99 }),
		RunTwice: twice,
	}
}

// median of a list that is not empty.
func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// percentile is the nearest-rank p-th percentile of samples in microseconds, in
// milliseconds.
func percentile(samples []int64, p int) float64 {
	if len(samples) == 0 {
		return 0
	}
	samples = slices.Sorted(slices.Values(samples))
	rank := (len(samples)*p + 99) / 100
	return float64(samples[max(rank, 1)-1]) / 1000
}

// fleet is the worker processes of a round.
type fleet struct {
	procs []*child.Process
	errs  chan error
	count chan int
	final chan tally
}

func startWorkers(ctx context.Context, o Options, root, queue string) (*fleet, error) {
	f := &fleet{errs: make(chan error, o.Workers), count: make(chan int, 1024), final: make(chan tally, o.Workers)}
	ready := make(chan struct{}, o.Workers)
	for range o.Workers {
		p, err := child.Start(o.ErrOut, o.WorkerEnv, append(slices.Clone(o.WorkerArgs),
			"--root", root, "--concurrency", strconv.Itoa(o.Concurrency), queue)...)
		if err != nil {
			f.stop()
			return nil, err
		}
		f.procs = append(f.procs, p)
		go f.read(p, ready)
	}
	for range o.Workers {
		select {
		case <-ready:
		case err := <-f.errs:
			f.stop()
			return nil, err
		case <-ctx.Done():
			f.stop()
			return nil, context.Cause(ctx)
		}
	}
	return f, nil
}

// read follows what one worker says.
func (f *fleet) read(p *child.Process, ready chan<- struct{}) {
	finished := false
	for line := range p.Lines {
		m, err := parseMessage(line)
		switch {
		case err != nil:
			f.errs <- err
			return
		case m.Ready:
			ready <- struct{}{}
		case m.Final != nil:
			finished = true
			f.final <- *m.Final
		default:
			f.count <- m.More
		}
	}
	if !finished {
		f.errs <- errors.New("a worker process ended early")
	}
}

// await waits until the workers have completed n jobs.
func (f *fleet) await(ctx context.Context, n int) error {
	for done := 0; done < n; {
		select {
		case more := <-f.count:
			done += more
		case err := <-f.errs:
			return err
		case <-ctx.Done():
			return fmt.Errorf("%d of %d jobs are done: %w", done, n, context.Cause(ctx))
		}
	}
	return nil
}

// results stops the workers and adds up what they found.
func (f *fleet) results() (tally, error) {
	var total tally
	for _, p := range f.procs {
		p.Quit()
	}
	for range f.procs {
		select {
		case t := <-f.final:
			total.add(t)
		case err := <-f.errs:
			return total, err
		case <-time.After(30 * time.Second):
			return total, errors.New("a worker process does not end")
		}
	}
	return total, nil
}

func (f *fleet) stop() {
	for _, p := range f.procs {
		p.Quit()
		p.KillAfter(5 * time.Second)
	}
}
