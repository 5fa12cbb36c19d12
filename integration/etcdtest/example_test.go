package etcdtest_test

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/integration/etcdtest"
)

// A write takes effect, but its answer never arrives: the client is told of an
// error, and only a look at the store tells what happened. In a test, New and
// ProxiedClient replace the first two steps and close what they made.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cluster, err := etcdtest.Start(ctx, etcdtest.Config{Proxies: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	client, err := clientv3.New(clientv3.Config{Endpoints: cluster.ProxiedEndpoints(), Logger: zap.NewNop()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	if _, err := client.Put(ctx, "job", "claimed"); err != nil {
		fmt.Println(err)
		return
	}

	proxy := cluster.Proxy(0)
	proxy.PauseAnswers()
	answer := make(chan error, 1)
	go func() {
		_, err := client.Put(ctx, "job", "done")
		answer <- err
	}()
	if err := proxy.WaitAnswers(ctx, 1); err != nil { // etcd has answered
		fmt.Println(err)
		return
	}
	proxy.Drop()
	fmt.Println("the client sees an error:", <-answer != nil)
	proxy.Heal()

	got, err := client.Get(ctx, "job")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("the store has: %s\n", got.Kvs[0].Value)
	// Output:
	// the client sees an error: true
	// the store has: done
}
