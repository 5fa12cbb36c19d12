package workqueue

import (
	"context"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/queue"
)

// Queues reads many queues under one root together, for those who look at them and do
// not work them: small queues share requests to etcd, so that it takes far fewer of
// them than there are queues. It owns no goroutine and needs no Close. Safe for
// concurrent use. A client or a root that cannot be used is an error of each call.
type Queues struct {
	// Client reaches etcd; it stays the caller's.
	Client *clientv3.Client
	// Root is where the queues are; "" means /leasekit/.
	Root string
}

// Names returns the names of the queues, sorted. A queue is its keys: one without
// jobs, config and workers does not show. It reads the names of keys, of which those
// of one large queue are passed over, and blocks until that is done or until ctx ends;
// a queue that comes or goes meanwhile may show or not.
func (qs Queues) Names(ctx context.Context) ([]string, error) {
	store, err := queue.OpenStore(qs.Client, qs.Root)
	if err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	keys := store.Keys()
	var names []string
	err = store.ScanNames(ctx, keys.Queues(), func(key string) string {
		p, ok := keys.Parse(key)
		if !ok {
			return "" // a foreign key
		}
		names = append(names, p.Queue)
		return keys.Queue(p.Queue).Prefix()
	})
	if err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	slices.Sort(names)
	return names, nil
}
