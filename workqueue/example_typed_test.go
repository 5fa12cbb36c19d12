package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/workqueue"
)

// EnqueueJSON, HandleJSON and WaitJSON are typed on the whole way.
func ExampleEnqueueJSON() {
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
	mux := workqueue.NewMux()
	workqueue.HandleJSON(mux, "resize", func(ctx context.Context, c *workqueue.Claim, in resize) (int, error) {
		return in.Width * in.Height, nil
	})
	defer work(q, mux)()

	job, err := workqueue.EnqueueJSON(ctx, q, "resize", resize{640, 480})
	if err != nil {
		log.Fatal(err)
	}
	pixels, err := workqueue.WaitJSON[int](ctx, q, job.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(job.Payload), pixels)
	// Output: {"Width":640,"Height":480} 307200
}

// A job that has no result says why.
func ExampleWaitJSON() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, stop := startEtcd(ctx)
	defer stop()
	q, err := workqueue.Open(ctx, client, workqueue.Config{Queue: "reports"})
	if err != nil {
		log.Fatal(err)
	}
	defer q.Close()

	job, err := workqueue.EnqueueJSON(ctx, q, "report", map[string]int{"month": 7})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := q.Cancel(ctx, job.ID, workqueue.By{Actor: "ann", Reason: "too early"}); err != nil {
		log.Fatal(err)
	}
	_, err = workqueue.WaitJSON[string](ctx, q, job.ID)
	fmt.Println(errors.Is(err, workqueue.ErrCancelled), errors.Is(err, workqueue.ErrNotApplicable))
	// Output: true true
}

// A job is done only while its worker holds a lock too: here it has lost the lock, so
// neither the result nor the write beside it lands, and the job can be given back.
func ExampleClaim_CompleteJoined() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, stop := startEtcd(ctx)
	defer stop()
	q, err := workqueue.Open(ctx, client, workqueue.Config{Queue: "deploys"})
	if err != nil {
		log.Fatal(err)
	}
	defer q.Close()
	s, err := coord.OpenSession(ctx, client, coord.SessionConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close(ctx)

	if _, err := q.Enqueue(ctx, workqueue.Params{ID: "v2"}); err != nil {
		log.Fatal(err)
	}
	claim, err := q.Claim(ctx, s)
	if err != nil {
		log.Fatal(err)
	}
	lock, err := coord.NewLock(s, "production").Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fences := []coord.Fence{lock.Fence()}
	if err := lock.Release(ctx); err != nil { // as an operator might take it away
		log.Fatal(err)
	}
	err = claim.CompleteJoined(ctx, []byte("deployed"), fences, clientv3.OpPut("/production/version", "v2"))
	fmt.Println("refused:", errors.Is(err, coord.ErrFenced))
	fmt.Println("given back:", claim.Release(ctx) == nil)
	// Output:
	// refused: true
	// given back: true
}

// Workers follow the mode of their queue while they run.
func ExampleQueue_SetMode() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, stop := startEtcd(ctx)
	defer stop()
	q, err := workqueue.Open(ctx, client, workqueue.Config{Queue: "mails"})
	if err != nil {
		log.Fatal(err)
	}
	defer q.Close()

	by := workqueue.By{Actor: "ann", Reason: "a planner takes over"}
	if err := q.SetMode(ctx, workqueue.ModeDispatch, by); err != nil {
		log.Fatal(err)
	}
	stats, err := admin.Count(ctx, q)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stats.Mode == workqueue.ModeDispatch)
	// Output: true
}
