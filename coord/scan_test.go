package coord_test

import (
	"errors"
	"fmt"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
)

// A scan sees one revision, in the keys' order, and ends when its reader has enough.
func TestScanReadsOneRevisionUntilItsReaderHasEnough(t *testing.T) {
	cl, root := etcdtest.Shared(t).Client(t), etcdtest.Root(t)
	store, err := coord.NewStore(cl, root, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx := within(t)
	const n = 500
	prefix := store.Keys().Root() + "x/"
	var last int64
	for i := range n {
		resp, err := cl.Put(ctx, fmt.Sprintf("%s%03d", prefix, i), "v")
		if err != nil {
			t.Fatal(err)
		}
		last = resp.Header.Revision
	}
	read := func(rev int64, atMost int) (keys []string, at int64, err error) {
		at, err = store.Scan(ctx, prefix, rev, func(kvs []*mvccpb.KeyValue) bool {
			for _, kv := range kvs {
				keys = append(keys, string(kv.Key))
			}
			return len(keys) < atMost
		})
		return keys, at, err
	}
	keys, at, err := read(0, n+1)
	if err != nil || len(keys) != n || keys[0] != prefix+"000" || keys[n-1] != prefix+"499" || at < last {
		t.Fatalf("read %d keys at %d: %v", len(keys), at, err)
	}
	if keys, got, err := read(last-1, n+1); err != nil || len(keys) != n-1 || got != last-1 {
		t.Errorf("read %d keys at %d: %v; want %d at %d", len(keys), got, err, n-1, last-1)
	}
	if keys, got, err := read(0, 3); err != nil || len(keys) < 3 || len(keys) >= n || got != 0 {
		t.Errorf("a reader that had enough got %d keys at %d: %v", len(keys), got, err)
	}
	if _, _, err := read(at+1000, n); !errors.Is(rpctypes.Error(err), rpctypes.ErrFutureRev) {
		t.Errorf("a revision to come: %v", err)
	}
}
