package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/workqueue"
)

// startEtcd starts a real etcd in this process. A program of yours has one
// already, and calls clientv3.New.
func startEtcd(ctx context.Context) (client *clientv3.Client, stop func()) {
	etcd, err := etcdtest.Start(ctx, etcdtest.Config{})
	if err != nil {
		log.Fatal(err)
	}
	client, err = clientv3.New(clientv3.Config{Endpoints: etcd.Endpoints()})
	if err != nil {
		log.Fatal(err)
	}
	return client, func() { _, _ = client.Close(), etcd.Close() }
}

// work runs a worker in the background; stop drains it.
func work(q *workqueue.Queue, h workqueue.Handler) (stop func()) {
	w, err := workqueue.NewWorker(q, h, workqueue.WorkerConfig{Concurrency: 4})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.Run(ctx); err != nil {
			log.Print(err)
		}
	})
	return func() { cancel(); wg.Wait() }
}

// A job is enqueued, worked by one worker, and its result is waited for.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, stop := startEtcd(ctx)
	defer stop()

	q, err := workqueue.Open(ctx, client, workqueue.Config{Queue: "greetings"})
	if err != nil {
		log.Fatal(err)
	}
	defer q.Close()

	w, err := workqueue.NewWorker(q, workqueue.HandlerFunc(func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
		return append([]byte("hello "), c.Job().Payload...), nil
	}), workqueue.WorkerConfig{Concurrency: 4})
	if err != nil {
		log.Fatal(err)
	}
	var wg sync.WaitGroup
	runCtx, drain := context.WithCancel(ctx)
	wg.Go(func() {
		if err := w.Run(runCtx); err != nil {
			log.Print(err)
		}
	})

	job, err := q.Enqueue(ctx, workqueue.Params{Payload: []byte("world")})
	if err != nil {
		log.Fatal(err)
	}
	done, err := q.Wait(ctx, job.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s\n", done.State, done.Result)

	drain()
	wg.Wait()
	// Output: done: hello world
}

// A Mux hands each job to the handler of its kind, here with JSON in and out.
func ExampleHandleJSON() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, stop := startEtcd(ctx)
	defer stop()
	q, err := workqueue.Open(ctx, client, workqueue.Config{Queue: "images"})
	if err != nil {
		log.Fatal(err)
	}
	defer q.Close()

	type resize struct{ Width, Height int }
	type size struct {
		Pixels int `json:"pixels"`
	}
	mux := workqueue.NewMux()
	workqueue.HandleJSON(mux, "resize", func(ctx context.Context, c *workqueue.Claim, in resize) (size, error) {
		return size{in.Width * in.Height}, nil
	})
	defer work(q, mux)()

	job, err := q.Enqueue(ctx, workqueue.Params{Kind: "resize", Payload: []byte(`{"width":640,"height":480}`)})
	if err != nil {
		log.Fatal(err)
	}
	done, err := q.Wait(ctx, job.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", done.Result)
	// Output: {"pixels":307200}
}

// What a job writes to etcd, and the job that follows it, land together with its
// result: all of it, or nothing when the claim was lost meanwhile.
func ExampleClaim_CompleteWith() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, stop := startEtcd(ctx)
	defer stop()
	q, err := workqueue.Open(ctx, client, workqueue.Config{Queue: "orders"})
	if err != nil {
		log.Fatal(err)
	}
	defer q.Close()

	mux := workqueue.NewMux()
	mux.Register("pack", workqueue.HandlerFunc(func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
		_, _, ops, err := q.EnqueueOps(workqueue.Params{ID: "ship-" + c.Job().ID, Kind: "ship"})
		if err != nil {
			return nil, err
		}
		ops = append(ops, clientv3.OpPut("/shop/stock/"+c.Job().ID, "packed"))
		return nil, c.CompleteWith(ctx, []byte("packed"), ops...)
	}))
	mux.Register("ship", workqueue.HandlerFunc(func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
		stock, err := client.Get(ctx, "/shop/stock/4711")
		if err != nil {
			return nil, err
		}
		return append([]byte("shipped what is "), stock.Kvs[0].Value...), nil
	}))
	defer work(q, mux)()

	if _, err := q.Enqueue(ctx, workqueue.Params{ID: "4711", Kind: "pack"}); err != nil {
		log.Fatal(err)
	}
	if _, err := q.Wait(ctx, "4711"); err != nil {
		log.Fatal(err)
	}
	shipped, err := q.Wait(ctx, "ship-4711")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", shipped.Result)
	// Output: shipped what is packed
}

// bank is a store outside etcd, with the two guards that it needs: a key per
// effect, so that none happens twice, and the highest token that it has seen per
// job, so that nobody writes who is late. A database does both in one transaction,
// with a unique index and a column.
type bank struct {
	mu      sync.Mutex
	effects map[string]int
	tokens  map[string]coord.Token
}

var errLate = errors.New("late: a newer attempt was here before")

// Charge makes one effect per key, for whoever is not late.
func (b *bank) Charge(job string, token coord.Token, key string, amount int) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if token < b.tokens[job] {
		return "", errLate
	}
	b.tokens[job] = token
	if _, ok := b.effects[key]; ok {
		return "charged already", nil
	}
	b.effects[key] = amount
	return "charged", nil
}

// Effects outside etcd are not undone when a claim is lost. The idempotency key,
// which is the same for all attempts of a job, keeps an effect from happening
// twice. The token, which only grows, keeps an owner that was superseded, but has
// not noticed, from writing behind its successor.
func ExampleClaim_IdempotencyKey() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, stop := startEtcd(ctx)
	defer stop()
	q, err := workqueue.Open(ctx, client, workqueue.Config{Queue: "payments"})
	if err != nil {
		log.Fatal(err)
	}
	defer q.Close()
	session, err := coord.OpenSession(ctx, client, coord.SessionConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(ctx)
	claim := func() *workqueue.Claim {
		for { // a Worker is woken; by hand one looks again
			c, err := q.Claim(ctx, session)
			if err == nil {
				return c
			}
			if !errors.Is(err, workqueue.ErrEmpty) {
				log.Fatal(err)
			}
		}
	}
	b := &bank{effects: map[string]int{}, tokens: map[string]coord.Token{}}
	charge := func(who string, c *workqueue.Claim) {
		did, err := b.Charge(c.Job().ID, c.Token(), c.IdempotencyKey(), 100)
		if err != nil {
			did = err.Error()
		}
		fmt.Println(who+":", did)
	}

	if _, err := q.Enqueue(ctx, workqueue.Params{ID: "invoice-1"}); err != nil {
		log.Fatal(err)
	}
	first := claim()
	charge("first owner", first)
	// It loses its claim before it can tell: here somebody takes it away.
	if _, err := admin.BreakClaim(ctx, q, "invoice-1", workqueue.By{Actor: "ops", Reason: "hangs"}); err != nil {
		log.Fatal(err)
	}
	second := claim()
	charge("second owner", second)
	charge("first owner", first)
	if err := first.Complete(ctx, nil); errors.Is(err, coord.ErrFenced) {
		fmt.Println("first owner: result refused")
	}
	if err := second.Complete(ctx, nil); err != nil {
		log.Fatal(err)
	}
	fmt.Println("effects:", len(b.effects))
	// Output:
	// first owner: charged
	// second owner: charged already
	// first owner: late: a newer attempt was here before
	// first owner: result refused
	// effects: 1
}

// What a handler returns says what becomes of its job: an ordinary error is tried
// again after the backoff, and these say otherwise.
func ExamplePermanent() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, stop := startEtcd(ctx)
	defer stop()
	q, err := workqueue.Open(ctx, client, workqueue.Config{Queue: "mails"})
	if err != nil {
		log.Fatal(err)
	}
	defer q.Close()

	defer work(q, workqueue.HandlerFunc(func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
		again := c.Job().Attempt > 1
		switch c.Job().ID {
		case "bad address":
			return nil, workqueue.Permanent(errors.New("no such mailbox"))
		case "busy server":
			if !again {
				return nil, workqueue.RetryAfter(10*time.Millisecond, errors.New("the server is busy"))
			}
		case "not yet":
			if !again {
				return nil, workqueue.Snooze(10 * time.Millisecond)
			}
		case "pointless":
			return nil, workqueue.Cancel(errors.New("the user is gone"))
		}
		return nil, nil
	}))()

	for _, id := range []string{"bad address", "busy server", "not yet", "pointless"} {
		if _, err := q.Enqueue(ctx, workqueue.Params{ID: id}); err != nil {
			log.Fatal(err)
		}
		job, err := q.Wait(ctx, id)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s, attempts %d, failures %d, error %q\n", id, job.State, job.Attempt, job.Failures, job.Error)
	}
	// Output:
	// bad address: dead, attempts 1, failures 1, error "no such mailbox"
	// busy server: done, attempts 2, failures 1, error ""
	// not yet: done, attempts 2, failures 0, error ""
	// pointless: cancelled, attempts 1, failures 0, error "the user is gone"
}

// Wait returns whatever the end is, to any process that knows the job's ID.
func ExampleQueue_Wait() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, stop := startEtcd(ctx)
	defer stop()
	q, err := workqueue.Open(ctx, client, workqueue.Config{Queue: "reports"})
	if err != nil {
		log.Fatal(err)
	}
	defer q.Close()
	if _, err := q.Enqueue(ctx, workqueue.Params{ID: "monthly"}); err != nil {
		log.Fatal(err)
	}

	ends := make(chan *workqueue.Job)
	go func() {
		job, err := q.Wait(ctx, "monthly")
		if err != nil {
			log.Print(err)
		}
		ends <- job
	}()
	if _, err := q.Cancel(ctx, "monthly", workqueue.By{Actor: "ann", Reason: "nobody reads it"}); err != nil {
		log.Fatal(err)
	}
	job := <-ends
	fmt.Println(job.State, "by", job.Attempts[0].Actor+":", job.Error)
	// Output: cancelled by ann: nobody reads it
}
