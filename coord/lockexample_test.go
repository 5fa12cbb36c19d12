package coord_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
)

// A lock hands out a fence: writes go through it, so that one who has lost the lock
// without knowing can do no harm.
func ExampleNewLock() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, stop := startEtcd(ctx)
	defer stop()

	session, err := coord.OpenSession(ctx, client, coord.SessionConfig{Identity: "agent-a"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close(ctx)

	hold, err := coord.NewLock(session, "deploy").Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	// Applied only while the lock is ours.
	_, err = hold.Commit(ctx, clientv3.OpPut("/site/version", "42"))
	fmt.Println("commit under the lock:", err)
	fmt.Println("release:", hold.Release(ctx))
	_, err = hold.Commit(ctx, clientv3.OpPut("/site/version", "41"))
	fmt.Println("a late commit is refused:", errors.Is(err, coord.ErrFenced))
	// Output:
	// commit under the lock: <nil>
	// release: <nil>
	// a late commit is refused: true
}

// A semaphore has a number of permits.
func ExampleNewSemaphore() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, stop := startEtcd(ctx)
	defer stop()

	session, err := coord.OpenSession(ctx, client, coord.SessionConfig{Identity: "agent-a"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close(ctx)

	gpus := coord.NewSemaphore(session, "gpu", 2)
	for range 3 {
		hold, err := gpus.TryAcquire(ctx)
		if errors.Is(err, coord.ErrHeld) {
			fmt.Println("none is left")
			continue
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("got a permit")
		defer hold.Release(ctx)
	}
	// Output:
	// got a permit
	// got a permit
	// none is left
}
