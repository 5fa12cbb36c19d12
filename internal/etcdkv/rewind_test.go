package etcdkv_test

import (
	"context"
	"errors"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/stubetcd"
)

// lowOnce gives one get a revision that is too low.
type lowOnce struct {
	*stubetcd.Etcd
	by int64
}

func (b *lowOnce) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	resp, err := b.Etcd.Get(ctx, key, opts...)
	if err == nil {
		resp.Header.Revision -= b.by
		b.by = 0
	}
	return resp, err
}

// One answer below the mark that the next read does not confirm is no rewind: it would
// end every session for nothing.
func TestOneLowAnswerIsNoRewind(t *testing.T) {
	keys, err := keyspace.New("")
	if err != nil {
		t.Fatal(err)
	}
	b := &lowOnce{Etcd: stubetcd.New()}
	s := etcdkv.NewStoreOn(b, keys, nil)
	rewound := s.Rewound()
	for _, by := range []int64{0, 60, 0} {
		b.by = by
		if _, err := s.Get(t.Context(), "k"); err != nil {
			t.Errorf("an answer %d below: %v", by, err)
		}
	}
	select {
	case <-rewound:
		t.Error("a rewind was announced")
	default:
	}
	b.Rewind(60)
	if _, err := s.Get(t.Context(), "k"); !errors.Is(err, fault.ErrHistoryRewound) {
		t.Errorf("after a rewind: %v", err)
	}
}

// A role need not read meta, nor anything but what it asks for: whatever request meets
// a history that went back, it can be confirmed.
func TestRewindIsNoticedByWhoeverMayReadAnything(t *testing.T) {
	const key, prefix = "/leasekit/q/k", "/leasekit/q/"
	for name, ask := range map[string]func(context.Context, *etcdkv.Store) error{
		"get": func(ctx context.Context, s *etcdkv.Store) error {
			_, err := s.Get(ctx, key)
			return err
		},
		"get of a range": func(ctx context.Context, s *etcdkv.Store) error {
			_, err := s.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithLimit(1))
			return err
		},
		"list": func(ctx context.Context, s *etcdkv.Store) error {
			_, err := s.List(ctx, prefix)
			return err
		},
		"names": func(ctx context.Context, s *etcdkv.Store) error {
			return s.ScanNames(ctx, prefix, func(string) string { return "" })
		},
		"lists of several prefixes": func(ctx context.Context, s *etcdkv.Store) error {
			_, err := s.ScanEach(ctx, []string{prefix + "a", prefix + "b"}, 0, func(int, []*mvccpb.KeyValue) bool { return true })
			return err
		},
		"reads together": func(ctx context.Context, s *etcdkv.Store) error {
			_, err := s.Read(ctx, clientv3.OpGet(key))
			return err
		},
		"a write": func(ctx context.Context, s *etcdkv.Store) error {
			_, err := s.Txn(ctx, etcdkv.Txn{If: etcdkv.GuardOf(key, 5, keyspace.NewNonce()), Then: []clientv3.Op{clientv3.OpPut("/elsewhere", "")}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			keys, err := keyspace.New("")
			if err != nil {
				t.Fatal(err)
			}
			b := &stubetcd.OneKey{Etcd: stubetcd.New(), Key: prefix, End: clientv3.GetPrefixRangeEnd(prefix)}
			s := etcdkv.NewStoreOn(b, keys, nil)
			rewound := s.Rewound()
			if err := ask(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			b.Rewind(60)
			if err := ask(t.Context(), s); !errors.Is(err, fault.ErrHistoryRewound) {
				t.Errorf("after a rewind: %v", err)
			}
			select {
			case <-rewound:
			default:
				t.Error("the rewind was not announced")
			}
		})
	}
}

// otherCluster answers as another cluster, at a revision that is none too low.
type otherCluster struct {
	*stubetcd.Etcd
	id uint64
}

func (b *otherCluster) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	resp, err := b.Etcd.Get(ctx, key, opts...)
	if err == nil {
		resp.Header.ClusterId = b.id
	}
	return resp, err
}

// A restore under another token is another cluster, whose revisions may be past ours.
func TestAnotherClusterIsARewind(t *testing.T) {
	keys, err := keyspace.New("")
	if err != nil {
		t.Fatal(err)
	}
	b := &otherCluster{Etcd: stubetcd.New(), id: 7}
	s := etcdkv.NewStoreOn(b, keys, nil)
	for _, step := range []struct {
		id   uint64
		want error
	}{{7, nil}, {8, fault.ErrHistoryRewound}, {8, nil}} {
		b.id = step.id
		b.Rev++
		if _, err := s.Get(t.Context(), "k"); !errors.Is(err, step.want) {
			t.Errorf("answered by cluster %d: got %v, want %v", step.id, err, step.want)
		}
	}
}
