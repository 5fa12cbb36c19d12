package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

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
	stats, err := q.Stats(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stats.Mode == workqueue.ModeDispatch)
	// Output: true
}
