package workqueue_test

import (
	"slices"
	"testing"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/workqueue"
)

func TestQueues(t *testing.T) {
	root := etcdtest.Root(t)
	client := etcdtest.Shared(t).Client(t)
	queues := workqueue.Queues{Client: client, Root: root}
	names, err := queues.Names(t.Context())
	if err != nil || len(names) != 0 {
		t.Errorf("got %q, %v of an empty root", names, err)
	}
	want := []string{"a", "a b", "a/b", "ab", "zz"}
	for _, name := range want {
		q := open(t, workqueue.Config{Root: root, Queue: name})
		for range 3 {
			if _, err := q.Enqueue(t.Context(), workqueue.Params{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Foreign keys hide no queue, before, inside or behind it.
	for _, key := range []string{"queues/0", "queues/a/foreign", "queues/zzz/x/y", "queuesx"} {
		if _, err := client.Put(t.Context(), root+key, ""); err != nil {
			t.Fatal(err)
		}
	}
	names, err = queues.Names(t.Context())
	if err != nil || !slices.Equal(names, want) {
		t.Errorf("got %q, %v; want %q", names, err, want)
	}
}
