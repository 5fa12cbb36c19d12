package coord_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/etcdkv"
)

// A scan sees one revision, in the keys' order, and ends when its reader has enough.
func TestScanReadsOneRevisionUntilItsReaderHasEnough(t *testing.T) {
	cl, root := etcdtest.Shared(t).Client(t), etcdtest.Root(t)
	store, err := etcdkv.NewStore(cl, root, nil)
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

// Many prefixes are read at one revision with few requests, in their order, and each is told of, also an empty one. Large
// ones are read whole, and left out where their reader has enough.
func TestScanEachSharesRequestsAmongSmallPrefixes(t *testing.T) {
	var rec etcdtest.Recorder
	cl, root := etcdtest.Shared(t).Client(t, rec.DialOptions()...), etcdtest.Root(t)
	store, err := etcdkv.NewStore(cl, root, nil)
	must(t, err)
	ctx := within(t)
	const n, large = 300, 137 // the large one has more keys than are read together
	want := map[int]int{large: 200}
	prefixes := make([]string, n)
	for i := range n {
		prefixes[i] = fmt.Sprintf("%sx/%03d/", store.Keys().Root(), i)
		if i != large && i%3 != 0 {
			want[i] = i % 3
		}
		for j := range want[i] {
			_, err := cl.Put(ctx, fmt.Sprintf("%s%03d", prefixes[i], j), "v")
			must(t, err)
		}
	}
	scan := func(rev int64, atMost int, each func(i int)) (map[int]int, []int, int64) {
		t.Helper()
		got, order := map[int]int{}, []int{}
		at, err := store.ScanEach(ctx, prefixes, rev, func(i int, kvs []*mvccpb.KeyValue) bool {
			if len(order) == 0 || order[len(order)-1] != i {
				order = append(order, i)
			}
			for _, kv := range kvs {
				if !strings.HasPrefix(string(kv.Key), prefixes[i]) {
					t.Errorf("%s came for %s", kv.Key, prefixes[i])
				}
				got[i]++
			}
			each(i)
			return got[i] < atMost
		})
		must(t, err)
		return got, order, at
	}
	rec.Reset()
	first := int64(0)
	got, order, at := scan(0, 1000, func(i int) {
		if i == 0 { // what is written while it reads is not seen
			resp, err := cl.Put(ctx, prefixes[n-1]+"late", "v")
			must(t, err)
			first = resp.Header.Revision
			rec.Reset()
		}
	})
	if !maps.Equal(got, want) || at >= first || !slices.IsSorted(order) || len(order) != n || order[n-1] != n-1 {
		t.Errorf("at %d, before %d, read %v in order %v, want %v", at, first, got, order, want)
	}
	sent := 0
	for _, count := range rec.Counts() {
		sent += count
	}
	if sent > n/20 {
		t.Errorf("%d requests for %d prefixes: %v", sent, n, rec.Counts())
	}
	if got, _, _ := scan(at, 10, func(int) {}); got[large] < 10 || got[large] >= 200 || got[n-2] != want[n-2] {
		t.Errorf("a reader that has enough of one prefix got %d of it, and %d of the last but one", got[large], got[n-2])
	}
	for _, some := range [][]string{prefixes, prefixes[:1]} {
		if _, err := store.ScanEach(ctx, some, at+1000, func(int, []*mvccpb.KeyValue) bool { return true }); !errors.Is(err, rpctypes.ErrFutureRev) {
			t.Errorf("a revision to come, %d prefixes: %v", len(some), err)
		}
	}
}

// Names that are passed over cost little: of many keys behind one prefix the most are not sent.
func TestScanNamesPassesOverWhatIsNotWanted(t *testing.T) {
	var rec etcdtest.Recorder
	cl, root := etcdtest.Shared(t).Client(t, rec.DialOptions()...), etcdtest.Root(t)
	store, err := etcdkv.NewStore(cl, root, nil)
	must(t, err)
	ctx := within(t)
	put := func(dir string, n int) {
		t.Helper()
		for from := 0; from < n; from += 100 {
			var puts []clientv3.Op
			for i := range min(100, n-from) {
				puts = append(puts, clientv3.OpPut(fmt.Sprintf("%sx/%s/%05d", store.Keys().Root(), dir, from+i), "v"))
			}
			_, err := cl.Txn(ctx).Then(puts...).Commit()
			must(t, err)
		}
	}
	put("a", 3)
	put("b", 9000)
	put("c", 1)
	put("d", 2500)
	for i := range 200 {
		put(fmt.Sprintf("e%03d", i), 2)
	}
	rec.Reset()
	prefix := store.Keys().Root() + "x/"
	var dirs []string
	must(t, store.ScanNames(ctx, prefix, func(name string) string {
		dir, _, _ := strings.Cut(name[len(prefix):], "/")
		dirs = append(dirs, dir)
		if dir == "a" {
			return "" // every name of it
		}
		return prefix + dir + "/"
	}))
	want := []string{"a", "a", "a", "b", "c", "d"}
	for i := range 200 {
		want = append(want, fmt.Sprintf("e%03d", i))
	}
	if !slices.Equal(dirs, want) {
		t.Errorf("got %q, want %q", dirs, want)
	}
	if opened := rec.Count("RangeStream.open"); opened == 0 || opened > 3 { // two directories are worth a new request
		t.Errorf("%d requests: %v", opened, rec.Counts())
	}
}
