package coord_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// startEtcd runs an etcd for an example and connects to it. In your program there
// is a clientv3.New instead.
func startEtcd(ctx context.Context) (client *clientv3.Client, stop func()) {
	cluster, err := etcdtest.Start(ctx, etcdtest.Config{})
	if err != nil {
		panic(err)
	}
	client, err = clientv3.New(clientv3.Config{Endpoints: cluster.Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		panic(err)
	}
	return client, func() { client.Close(); cluster.Close() }
}

// A session is this process's liveness. Work gets its context from it, and so
// ends before anybody else can be told that this process is dead.
func ExampleOpenSession() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, stop := startEtcd(ctx)
	defer stop()

	s, err := coord.OpenSession(ctx, client, coord.SessionConfig{Identity: "agent-a", TTL: 10 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	work, done := s.Context(ctx)
	defer done()
	fmt.Println("working:", work.Err() == nil, s.Remaining() > 0)

	// Somebody takes the session away; a silent network does the same in time.
	if _, err := client.Revoke(ctx, s.Lease()); err != nil {
		fmt.Println(err)
		return
	}
	<-work.Done()
	fmt.Println("session lost:", errors.Is(context.Cause(work), coord.ErrSessionLost))
	fmt.Println("close:", s.Close(ctx))
	// Output:
	// working: true true
	// session lost: true
	// close: <nil>
}

// A member keeps one session alive for the whole process, and the next one after
// a loss.
func ExampleMember() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, stop := startEtcd(ctx)
	defer stop()

	m := coord.NewSessionKeeper(client, coord.SessionConfig{Identity: "agent-a"})
	running, shutdown := context.WithCancel(ctx)
	defer shutdown()
	ended := make(chan error, 1)
	go func() { ended <- m.Run(running) }()

	first, err := m.Session(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := client.Revoke(ctx, first.Lease()); err != nil {
		fmt.Println(err)
		return
	}
	<-first.Done()
	second, err := m.Session(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("a new session:", second.ID() != first.ID())

	shutdown()
	fmt.Println("run:", <-ended)
	// Output:
	// a new session: true
	// run: <nil>
}

// A key of the caller's own is guarded by a fence: writes under a superseded
// token are refused, however late they arrive.
func ExampleSession_Commit() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, stop := startEtcd(ctx)
	defer stop()
	s, err := coord.OpenSession(ctx, client, coord.SessionConfig{Identity: "agent-a"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close(ctx)

	// Own the key: its value begins with a fresh nonce, its revision is the token.
	claim := func() (coord.Fence, error) {
		nonce := keyspace.NewNonce()
		res, err := s.Commit(ctx, nil, clientv3.OpPut("/app/shard-7", fmt.Sprintf(`{"w":"%s","owner":%q}`, nonce, s.ID())))
		return coord.Fence{Key: "/app/shard-7", Token: coord.Token(res.Revision), Nonce: nonce}, err
	}
	old, err := claim()
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = s.Commit(ctx, []coord.Fence{old}, clientv3.OpPut("/app/shard-7-result", "by the owner"))
	fmt.Println("by the owner:", err)

	if _, err := claim(); err != nil { // somebody else takes it over
		fmt.Println(err)
		return
	}
	_, err = s.Commit(ctx, []coord.Fence{old}, clientv3.OpPut("/app/shard-7-result", "too late"))
	fmt.Println("too late, fenced:", errors.Is(err, coord.ErrFenced))
	// Output:
	// by the owner: <nil>
	// too late, fenced: true
}
