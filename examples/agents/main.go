// Command agents is an agent: it takes one task from a queue and does it in three steps. See README.md.
//
//	agents NAME QUEUE
//
// It finds etcd as leasectl does, by LEASECTL_ENDPOINTS and LEASECTL_ROOT.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/workqueue"
)

const steps = 3

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: agents NAME QUEUE")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

// run takes one task and does it.
func run(ctx context.Context, name, queue string) error {
	endpoints := cmp.Or(os.Getenv("LEASECTL_ENDPOINTS"), "127.0.0.1:2379")
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(endpoints, ",")})
	if err != nil {
		return err
	}
	defer client.Close()
	q, err := workqueue.Open(ctx, client, workqueue.Config{Queue: queue, Root: os.Getenv("LEASECTL_ROOT"), Identity: name})
	if err != nil {
		return err
	}
	defer q.Close()
	w, err := workqueue.NewWorker(q, agent{name}, workqueue.WorkerConfig{Concurrency: 1, Limit: 1, SessionTTL: 5 * time.Second})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// agent does tasks.
type agent struct{ name string }

// Handle does the steps that no agent before it has done, and keeps each as soon as it is done.
func (a agent) Handle(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
	did := strings.Fields(string(c.Job().Checkpoint))
	for step := len(did) + 1; step <= steps; step++ {
		if os.Getenv("AGENT_HANG") == fmt.Sprint(step) {
			fmt.Println(a.name, "hangs in step", step)
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		did = append(did, fmt.Sprintf("%d:%s", step, a.name))
		if err := c.Checkpoint(ctx, []byte(strings.Join(did, " "))); err != nil {
			return nil, err // such as coord.ErrFenced: another agent has the task by now
		}
	}
	fmt.Println(a.name, "did", strings.Join(did, " "))
	return []byte(strings.Join(did, " ")), nil
}
