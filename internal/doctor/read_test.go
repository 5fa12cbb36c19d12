package doctor

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/roles"
)

func TestMain(m *testing.M) { etcdtest.Main(m, etcdtest.Config{}) }

// A server that cannot stream is read in pages, to the same end; what was written meanwhile is not seen.
func TestScansReadOneRevisionInStreamsAndPages(t *testing.T) {
	client := etcdtest.Shared(t).Client(t)
	root := etcdtest.Root(t)
	var want []string
	for i := range 120 {
		var ops []clientv3.Op
		for k := range 100 {
			key := fmt.Sprintf("%sk%03d-%02d", root, i, k)
			ops = append(ops, clientv3.OpPut(key, "x"))
			want = append(want, key)
		}
		if _, err := client.Txn(t.Context()).Then(ops...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	resp, err := client.Put(t.Context(), root+"behind", "x")
	if err != nil {
		t.Fatal(err)
	}
	r := reader{client: client, rev: resp.Header.Revision - 1, allowed: roles.Granted{Everything: true}}
	var got []string
	keep := func(kvs []*mvccpb.KeyValue) error {
		for _, kv := range kvs {
			got = append(got, string(kv.Key))
		}
		return nil
	}
	if whole, err := r.scan(t.Context(), root, true, keep); err != nil || !whole || !slices.Equal(got, want) {
		t.Errorf("streamed %d of %d: %v", len(got), len(want), err)
	}
	got = nil
	opts := []clientv3.OpOption{clientv3.WithRange(prefixEnd(root)), clientv3.WithRev(r.rev), clientv3.WithKeysOnly()}
	if err := r.orPages(t.Context(), span(root, prefixEnd(root)), opts, keep, status.Error(codes.Unimplemented, "")); err != nil || !slices.Equal(got, want) {
		t.Errorf("in pages %d of %d: %v", len(got), len(want), err)
	}
	if _, err := r.scan(t.Context(), root, true, func([]*mvccpb.KeyValue) error { return errEnough }); err != errEnough {
		t.Errorf("a caller who has enough gets %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.scan(ended, root, true, keep); err == nil {
		t.Error("read although its context had ended")
	}
	if _, err := client.Compact(t.Context(), resp.Header.Revision); err != nil {
		t.Fatal(err)
	}
	if _, err := r.scan(t.Context(), root, true, keep); !isCompacted(err) {
		t.Errorf("behind a compaction: %v", err)
	}
}
