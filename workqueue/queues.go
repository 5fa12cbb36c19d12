package workqueue

import (
	"context"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
)

// Queues reads many queues under one root together, for those who look at them and do
// not work them: small queues share requests to etcd, so that it takes far fewer of
// them than there are queues. It owns no goroutine and needs no Close; the client
// stays the caller's. Safe for concurrent use.
type Queues struct{ store *coord.Store }

// NewQueues returns the queues under root; "" means /leasekit/. It does not talk to
// etcd.
func NewQueues(client *clientv3.Client, root string) (*Queues, error) {
	store, err := coord.NewStore(client, root, nil)
	if err != nil {
		return nil, fmt.Errorf("open queues: %w", err)
	}
	return &Queues{store}, nil
}

// Names returns the names of the queues, sorted. A queue is its keys: one without
// jobs, config and workers does not show. It reads the names of keys, of which those
// of one large queue are passed over, and blocks until that is done or until ctx ends;
// a queue that comes or goes meanwhile may show or not.
func (qs *Queues) Names(ctx context.Context) ([]string, error) {
	keys := qs.store.Keys()
	var names []string
	err := qs.store.ScanNames(ctx, keys.Queues(), func(key string) string {
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

// valid refuses names that no queue can have.
func valid(names []string) error {
	for _, name := range names {
		if err := coord.ValidateName("queue", name); err != nil {
			return err
		}
	}
	return nil
}
