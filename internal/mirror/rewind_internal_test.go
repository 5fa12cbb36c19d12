package mirror

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
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

// resets counts full lists.
type resets struct{ got chan int64 }

func (r resets) Reset(_ []*mvccpb.KeyValue, rev int64) { r.got <- rev }
func (r resets) Apply(_ []*clientv3.Event, _ int64)    {}

// A mirror lists again at once when anybody who shares its store has seen history go back.
func TestMirrorListsAgainAfterARewind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, err := keyspace.New("")
		if err != nil {
			t.Fatal(err)
		}
		e := stubetcd.New()
		s := etcdkv.NewStoreOn(e, keys, nil)
		m, sink := New(s, time.Hour, 24*time.Hour), resets{make(chan int64, 9)}
		m.Add("/leasekit/q/", sink)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = m.Run(ctx) }()
		before := <-sink.got
		synctest.Wait()
		e.Rewind(60)
		if _, err := s.Get(ctx, "k"); !errors.Is(err, fault.ErrHistoryRewound) {
			t.Fatal(err)
		}
		synctest.Wait() // no clock moves
		select {
		case now := <-sink.got:
			if now >= before {
				t.Errorf("listed at %d, and before at %d", now, before)
			}
		default:
			t.Error("it was not listed again")
		}
	})
}
