package workqueue

import (
	"context"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
)

// Queues returns the names of the queues under root, sorted; "" means
// /leasekit/. A queue is its keys: one without jobs, config and workers
// does not show. It asks etcd once per queue and blocks until the answers or until
// ctx ends; a queue that comes or goes meanwhile may show or not.
func Queues(ctx context.Context, client *clientv3.Client, root string) ([]string, error) {
	store, err := coord.NewStore(client, root, nil)
	if err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	keys := store.Keys()
	end := clientv3.GetPrefixRangeEnd(keys.Queues())
	var names []string
	for from := keys.Queues(); ; {
		resp, err := store.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(1), clientv3.WithKeysOnly())
		if err != nil {
			return nil, fmt.Errorf("list queues: %w", err)
		}
		if len(resp.Kvs) == 0 {
			slices.Sort(names)
			return names, nil
		}
		key := string(resp.Kvs[0].Key)
		if p, ok := keys.Parse(key); ok {
			names = append(names, p.Queue)
			// On behind all keys of this queue: one request per queue, not per key.
			from = clientv3.GetPrefixRangeEnd(keys.Queue(p.Queue).Prefix())
		} else {
			from = key + "\x00" // a foreign key
		}
	}
}
