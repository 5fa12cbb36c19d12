package faults

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// SlowWatch opens a watch on all of the queue's keys and never reads what it sends:
// the member that serves it has to keep what it cannot deliver. Healing closes it.
type SlowWatch struct{}

// Name is "slow-watch".
func (SlowWatch) Name() string { return "slow-watch" }

// Inject opens the watch at a random member, and blocks until that has confirmed it.
func (f SlowWatch) Inject(ctx context.Context, env *Env) (heal Heal, err error) {
	endpoints := env.Cluster.Endpoints()
	cl, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints[:1:1], DialTimeout: traffic, Logger: zap.NewNop(),
		Username: env.User, Password: env.Password,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	defer func() {
		if err != nil {
			_ = cl.Close() // it served nobody
			err = fmt.Errorf("%s: %w", f.Name(), err)
		}
	}()
	cl.SetEndpoints(endpoints[env.Rand.IntN(len(endpoints))])
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	giveUp := context.AfterFunc(ctx, stop)
	defer giveUp()
	stream, err := pb.NewWatchClient(cl.ActiveConnection()).Watch(life)
	if err == nil {
		err = stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{
			Key: []byte(env.Root), RangeEnd: []byte(clientv3.GetPrefixRangeEnd(env.Root)), PrevKv: true,
		}}})
	}
	if err == nil {
		_, err = stream.Recv() // that it is created; and then no more
	}
	if err != nil {
		stop()
		return nil, err
	}
	return healing(f.Name(), nil, func(context.Context) error {
		stop()
		_ = cl.Close() // whose error is that the stream was in use
		return nil
	}), nil
}
