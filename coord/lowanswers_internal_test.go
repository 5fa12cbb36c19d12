package coord

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// One rewind is announced once, however many requests run into it, and what was sent
// before it does not lift the new history's mark.
func TestHighWater(t *testing.T) {
	h := newHighWater()
	h.raise(h.read(), 100, 1)
	before := h.read()
	if !h.rewind(before, &pb.ResponseHeader{Revision: 40, ClusterId: 1}) {
		t.Error("a rewind is no news")
	}
	if h.rewind(before, &pb.ResponseHeader{Revision: 41, ClusterId: 1}) {
		t.Error("another request ran into the same rewind, and it was announced again")
	}
	h.raise(before, 100, 1)
	if got := h.read().rev; got != 40 {
		t.Errorf("the mark is at %d, lifted by an answer from before the rewind; want 40", got)
	}
	h.raise(h.read(), 50, 1)
	if got := h.read().rev; got != 50 {
		t.Errorf("the mark is at %d, want 50", got)
	}
}

// lowOnce gives one get a revision that is too low.
type lowOnce struct {
	*stubEtcd
	by int64
}

func (b *lowOnce) get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	resp, err := b.stubEtcd.get(ctx, key, opts...)
	if err == nil {
		resp.Header.Revision -= b.by
		b.by = 0
	}
	return resp, err
}

// One answer below the mark that the next read does not confirm is no rewind: it would
// end every session for nothing.
func TestOneLowAnswerIsNoRewind(t *testing.T) {
	keys, err := NewKeyspace("")
	if err != nil {
		t.Fatal(err)
	}
	b := &lowOnce{stubEtcd: newStubEtcd()}
	s := newStore(b, keys, nil)
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
	b.rewind(60)
	if _, err := s.Get(t.Context(), "k"); !errors.Is(err, ErrHistoryRewound) {
		t.Errorf("after a rewind: %v", err)
	}
}

// oneKey lets its user read the range [key, end) and nothing else, as a role of etcd
// does, and carries reading Txns, all of which find nothing.
type oneKey struct {
	*stubEtcd
	key, end string
}

func (b *oneKey) may(key string, opts ...clientv3.OpOption) bool {
	op := clientv3.OpGet(key, opts...)
	return b.key <= key && string(op.RangeBytes()) <= b.end && key < b.end
}

func (b *oneKey) get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if !b.may(key, opts...) {
		return nil, rpctypes.ErrPermissionDenied
	}
	return b.stubEtcd.get(ctx, key, opts...)
}

func (b *oneKey) scan(ctx context.Context, from string, each func([]*mvccpb.KeyValue) bool, opts ...clientv3.OpOption) (*pb.ResponseHeader, error) {
	if !b.may(from, opts...) {
		return nil, rpctypes.ErrPermissionDenied
	}
	return b.stubEtcd.scan(ctx, from, each, opts...)
}

func (b *oneKey) txn(context.Context, Txn) (*clientv3.TxnResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return &clientv3.TxnResponse{Header: &pb.ResponseHeader{Revision: b.rev}}, nil
}

// A role need not read meta, nor anything but what it asks for: whatever request meets
// a history that went back, it can be confirmed.
func TestRewindIsNoticedByWhoeverMayReadAnything(t *testing.T) {
	const key, prefix = "/leasekit/q/k", "/leasekit/q/"
	for name, ask := range map[string]func(context.Context, *Store) error{
		"get": func(ctx context.Context, s *Store) error {
			_, err := s.Get(ctx, key)
			return err
		},
		"get of a range": func(ctx context.Context, s *Store) error {
			_, err := s.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithLimit(1))
			return err
		},
		"list": func(ctx context.Context, s *Store) error {
			_, err := s.List(ctx, prefix)
			return err
		},
		"names": func(ctx context.Context, s *Store) error {
			return s.ScanNames(ctx, prefix, func(string) string { return "" })
		},
		"lists of several prefixes": func(ctx context.Context, s *Store) error {
			_, err := s.ScanEach(ctx, []string{prefix + "a", prefix + "b"}, 0, func(int, []*mvccpb.KeyValue) bool { return true })
			return err
		},
		"reads together": func(ctx context.Context, s *Store) error {
			_, err := s.Read(ctx, clientv3.OpGet(key))
			return err
		},
		"a write": func(ctx context.Context, s *Store) error {
			_, err := s.txn(ctx, Txn{If: guardOf(key, 5, NewNonce()), Then: []clientv3.Op{clientv3.OpPut("/elsewhere", "")}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			keys, err := NewKeyspace("")
			if err != nil {
				t.Fatal(err)
			}
			b := &oneKey{stubEtcd: newStubEtcd(), key: prefix, end: clientv3.GetPrefixRangeEnd(prefix)}
			s := newStore(b, keys, nil)
			rewound := s.Rewound()
			if err := ask(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			b.rewind(60)
			if err := ask(t.Context(), s); !errors.Is(err, ErrHistoryRewound) {
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

// A watch that is answered from an older history has that confirmed by what it watches.
func TestMirrorNoticesARewindByWhatItWatches(t *testing.T) {
	const prefix = "/leasekit/q/"
	for _, watched := range []string{prefix, prefix + "config"} {
		keys, err := NewKeyspace("")
		if err != nil {
			t.Fatal(err)
		}
		b := &oneKey{stubEtcd: newStubEtcd(), key: watched, end: clientv3.GetPrefixRangeEnd(watched)}
		s := newStore(b, keys, nil)
		m := s.Mirror(0, 0)
		m.Add(watched, &revisions{})
		f := m.feeds[0]
		if err := m.list(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		rewound := s.Rewound()
		b.rewind(60)
		created := clientv3.WatchResponse{Header: &pb.ResponseHeader{Revision: b.rev}, Created: true}
		if err := m.take(t.Context(), f, created, s.high.read()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-rewound:
		default:
			t.Errorf("watching %s, the rewind was not announced", watched)
		}
	}
}

// otherCluster answers as another cluster, at a revision that is none too low.
type otherCluster struct {
	*stubEtcd
	id uint64
}

func (b *otherCluster) get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	resp, err := b.stubEtcd.get(ctx, key, opts...)
	if err == nil {
		resp.Header.ClusterId = b.id
	}
	return resp, err
}

// A restore under another token is another cluster, whose revisions may be past ours.
func TestAnotherClusterIsARewind(t *testing.T) {
	keys, err := NewKeyspace("")
	if err != nil {
		t.Fatal(err)
	}
	b := &otherCluster{stubEtcd: newStubEtcd(), id: 7}
	s := newStore(b, keys, nil)
	for _, step := range []struct {
		id   uint64
		want error
	}{{7, nil}, {8, ErrHistoryRewound}, {8, nil}} {
		b.id = step.id
		b.rev++
		if _, err := s.Get(t.Context(), "k"); !errors.Is(err, step.want) {
			t.Errorf("answered by cluster %d: got %v, want %v", step.id, err, step.want)
		}
	}
}

// resets counts full lists.
type resets struct{ got chan int64 }

func (r resets) Reset(_ []*mvccpb.KeyValue, rev int64) { r.got <- rev }
func (r resets) Apply(_ []*clientv3.Event, _ int64)    {}

// A mirror lists again at once when anybody who shares its store has seen history go back.
func TestMirrorListsAgainAfterARewind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		keys, err := NewKeyspace("")
		if err != nil {
			t.Fatal(err)
		}
		e := newStubEtcd()
		s := newStore(e, keys, nil)
		m, sink := s.Mirror(time.Hour, 24*time.Hour), resets{make(chan int64, 9)}
		m.Add("/leasekit/q/", sink)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = m.Run(ctx) }()
		before := <-sink.got
		synctest.Wait()
		e.rewind(60)
		if _, err := s.Get(ctx, "k"); !errors.Is(err, ErrHistoryRewound) {
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

// A claim that comes while Close gives the others back must not slip in behind it.
func TestNothingIsEnteredBehindClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStubEtcd().open(t, SessionConfig{})
		if err := s.book.Close(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		_, _ = s.Track("late", nil), s.Keep("late", nil) // whose session is not over yet
		if n := s.book.Len(); n != 0 {
			t.Errorf("%d claims were entered that nobody gives back", n)
		}
	})
}
