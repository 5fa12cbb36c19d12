package queue

import (
	"context"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// QueuesAtOnce is how many queues are read before anything of them is yielded: a
// caller that takes its time must not keep etcd sending.
const QueuesAtOnce = 128

// NamesText is queues in a sentence.
func NamesText(queues []string) string {
	if len(queues) == 1 {
		return "queue " + queues[0]
	}
	return fmt.Sprintf("%d queues", len(queues))
}

// Directory is where some records of a queue are.
type Directory struct {
	Queue  string
	Txns   job.Txns
	Where  job.Place
	Prefix string
}

// DirectoriesOf lists where the records of a queue are, in the order of a list.
func DirectoriesOf(keys keyspace.Keyspace, queue string) []Directory {
	q := keys.Queue(queue)
	t := job.Txns{Keys: q, Space: keys}
	return []Directory{{queue, t, job.InJobs, q.Jobs()}, {queue, t, job.InDead, q.DeadJobs()}, {queue, t, job.InDone, q.DoneJobs()}}
}

// LiveOwners reads all sessions, and tells at which revision.
func LiveOwners(ctx context.Context, store *etcdkv.Store) (func(string, int64) bool, int64, error) {
	prefix := store.Keys().Sessions()
	resp, err := store.List(ctx, prefix)
	if err != nil {
		return nil, 0, Unreadable(prefix, err)
	}
	created := map[string]int64{}
	for _, kv := range resp.Kvs {
		created[strings.TrimPrefix(string(kv.Key), prefix)] = kv.CreateRevision
	}
	return func(sid string, rev int64) bool {
		got, ok := created[sid]
		return ok && got == rev
	}, resp.Header.Revision, nil
}

// OpenStore returns the store to read queues of these names from.
func OpenStore(client *clientv3.Client, root string, names ...string) (*etcdkv.Store, error) {
	for _, name := range names {
		if err := keyspace.ValidateName("queue", name); err != nil {
			return nil, err
		}
	}
	return etcdkv.NewStore(client, root, nil)
}
