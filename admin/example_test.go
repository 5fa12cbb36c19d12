package admin_test

import (
	"context"
	"fmt"
	"log"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/admin"
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

// A job that waits gets a higher priority; then the queue is counted.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, stop := startEtcd(ctx)
	defer stop()
	q, err := workqueue.Open(ctx, client, workqueue.Config{Queue: "reports"})
	if err != nil {
		log.Fatal(err)
	}
	defer q.Close()
	if _, err := q.Enqueue(ctx, workqueue.Params{ID: "q3"}); err != nil {
		log.Fatal(err)
	}

	ann := workqueue.By{Actor: "ann", Reason: "the board meets today"}
	job, err := admin.Edit(ctx, q, "q3", func(p *workqueue.Params) error { p.Priority = 10; return nil }, ann)
	if err != nil {
		log.Fatal(err)
	}
	stats, err := admin.Count(ctx, q)
	if err != nil {
		log.Fatal(err)
	}
	last := job.Attempts[len(job.Attempts)-1]
	fmt.Printf("%s: priority %d, %s by %s\n", job.ID, job.Priority, last.Outcome, last.Actor)
	fmt.Println("ready:", stats.Jobs[workqueue.StateReady])
	// Output:
	// q3: priority 10, edited by ann
	// ready: 1
}

// The jobs of one queue are put into another, as in a move to another cluster.
func ExampleImport() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, stop := startEtcd(ctx)
	defer stop()
	var queues [2]*workqueue.Queue
	for i, name := range []string{"old", "new"} {
		q, err := workqueue.Open(ctx, client, workqueue.Config{Queue: name})
		if err != nil {
			log.Fatal(err)
		}
		defer q.Close()
		queues[i] = q
	}
	for _, id := range []string{"a", "b"} {
		if _, err := queues[0].Enqueue(ctx, workqueue.Params{ID: id}); err != nil {
			log.Fatal(err)
		}
	}

	var lines [][]byte
	for line, err := range admin.Export(ctx, queues[0]) {
		if err != nil {
			log.Fatal(err)
		}
		lines = append(lines, line)
	}
	for i, err := range admin.Import(ctx, queues[1], lines, false, workqueue.By{Actor: "ann"}) {
		if err != nil {
			log.Fatalf("line %d: %v", i+1, err)
		}
	}
	for job, err := range queues[1].List(ctx, workqueue.Filter{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(job.ID, job.State)
	}
	// Output:
	// a ready
	// b ready
}

// Only a claimed job has a claim that can be broken.
func ExampleBreakClaim() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, stop := startEtcd(ctx)
	defer stop()
	q, err := workqueue.Open(ctx, client, workqueue.Config{Queue: "reports"})
	if err != nil {
		log.Fatal(err)
	}
	defer q.Close()
	if _, err := q.Enqueue(ctx, workqueue.Params{ID: "q3"}); err != nil {
		log.Fatal(err)
	}

	_, err = admin.BreakClaim(ctx, q, "q3", workqueue.By{Actor: "ann"})
	fmt.Println(err)
	// Output:
	// break a claim: job q3 of reports: not applicable to a job in this state: it is ready
}
