package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/leasekit/leasekit/workqueue"
)

// message is one line of a worker process.
type message struct {
	Ready bool   `json:"ready,omitempty"`
	More  int    `json:"more,omitempty"` // jobs completed since the last message
	Final *tally `json:"final,omitempty"`
}

func parseMessage(line string) (m message, err error) {
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		return m, fmt.Errorf("a worker process said %.80q: %w", line, err)
	}
	return m, nil
}

// tally is what a worker process counted.
type tally struct {
	Completed int       `json:"completed"`
	Missed    int       `json:"missed"`
	Txns      int64     `json:"txns"`
	Last      time.Time `json:"last"`       // the last accepted completion
	Claims    []int64   `json:"claims_us"`  // how long claims took
	Pickups   []int64   `json:"pickups_us"` // from enqueue to claim
}

func (t *tally) add(o tally) {
	t.Completed, t.Missed, t.Txns = t.Completed+o.Completed, t.Missed+o.Missed, t.Txns+o.Txns
	t.Claims, t.Pickups = append(t.Claims, o.Claims...), append(t.Pickups, o.Pickups...)
	if o.Last.After(t.Last) {
		t.Last = o.Last
	}
}

// Work is a worker process: it works no-op jobs until ctx ends, and tells its
// parent on out.
func Work(ctx context.Context, dial func(...grpc.DialOption) (*clientv3.Client, error), root, queue string, concurrency int, out io.Writer) error {
	var txns atomic.Int64
	client, err := dial(grpc.WithChainUnaryInterceptor(countTxns(&txns)))
	if err != nil {
		return err
	}
	defer client.Close()
	q, err := workqueue.Open(ctx, client, workqueue.Config{Queue: queue, Root: root})
	if err != nil {
		return err
	}
	defer q.Close()
	var mu sync.Mutex
	var t tally
	w, err := workqueue.NewWorker(q, workqueue.HandlerFunc(func(context.Context, *workqueue.Claim) ([]byte, error) {
		return nil, nil
	}), workqueue.WorkerConfig{Concurrency: concurrency, Hooks: workqueue.Hooks{
		Claimed: func(j *workqueue.Job, took time.Duration) {
			waited := time.Since(j.EnqueuedAt)
			mu.Lock()
			defer mu.Unlock()
			t.Claims, t.Pickups = append(t.Claims, took.Microseconds()), append(t.Pickups, waited.Microseconds())
		},
		Missed: func() {
			mu.Lock()
			defer mu.Unlock()
			t.Missed++
		},
		Settled: func(_ *workqueue.Job, s workqueue.Settlement) {
			if s.Err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			t.Completed++
			t.Last = time.Now()
		},
	}})
	if err != nil {
		return err
	}
	enc := json.NewEncoder(out)
	var report sync.WaitGroup
	report.Go(func() { tell(ctx, enc, func() int { mu.Lock(); defer mu.Unlock(); return t.Completed }) })
	err = w.Run(ctx)
	report.Wait()
	t.Txns = txns.Load()
	if eerr := enc.Encode(message{Final: &t}); err == nil {
		err = eerr
	}
	return err
}

// tell says that the process is there, and then how many jobs more it completed.
func tell(ctx context.Context, enc *json.Encoder, completed func() int) {
	_ = enc.Encode(message{Ready: true})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for told := 0; ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if n := completed(); n > told {
			_ = enc.Encode(message{More: n - told})
			told = n
		}
	}
}
