package mirror

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/stubetcd"
)

// A watch that is answered from an older history has that confirmed by what it watches.
func TestMirrorNoticesARewindByWhatItWatches(t *testing.T) {
	const prefix = "/leasekit/q/"
	for _, watched := range []string{prefix, prefix + "config"} {
		keys, err := keyspace.New("")
		if err != nil {
			t.Fatal(err)
		}
		b := &stubetcd.OneKey{Etcd: stubetcd.New(), Key: watched, End: clientv3.GetPrefixRangeEnd(watched)}
		s := etcdkv.NewStoreOn(b, keys, nil)
		m := New(s, 0, 0)
		m.Add(watched, &revisions{})
		f := m.feeds[0]
		if err := m.list(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		rewound := s.Rewound()
		b.Rewind(60)
		created := clientv3.WatchResponse{Header: &pb.ResponseHeader{Revision: b.Rev}, Created: true}
		if err := m.take(t.Context(), f, created, s.Seen()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-rewound:
		default:
			t.Errorf("watching %s, the rewind was not announced", watched)
		}
	}
}
