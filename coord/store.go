package coord

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/metadata"
)

// requestTimeout bounds one request to etcd. A Txn that ran into it is repeated
// in its lane, so a short bound costs nothing but the repeat and moves the
// request to another endpoint.
const requestTimeout = 3 * time.Second

// listTimeout bounds the first list of a mirror: a million keys take seconds.
const listTimeout = 60 * time.Second

// Store is one root of one etcd cluster: the keys and the few calls that
// Leasekit makes. It notices when the cluster's history goes back. Safe for
// concurrent use. It owns no goroutine and needs no Close; the client stays the
// caller's.
type Store struct {
	keys    Keyspace
	backend backend
	log     *zap.Logger

	// mark is the highest revision in a linearizable answer so far.
	mark atomic.Int64
	// streams numbers the watch streams: a new number is a new gRPC stream.
	streams atomic.Int64
	id      string

	mu      sync.Mutex
	rewound chan struct{}
}

// NewStore returns the store for one root; root "" means [DefaultRoot], a nil
// logger logs nothing. It does not talk to etcd.
func NewStore(client *clientv3.Client, root string, log *zap.Logger) (*Store, error) {
	keys, err := NewKeyspace(root)
	if err != nil {
		return nil, err
	}
	if client == nil {
		return nil, &InputError{Field: "client", Value: "nil", Reason: "pass an open etcd client"}
	}
	return newStore(newEtcdBackend(client), keys, log), nil
}

func newStore(b backend, keys Keyspace, log *zap.Logger) *Store {
	if log == nil {
		log = zap.NewNop()
	}
	return &Store{keys: keys, backend: b, log: log, id: NewNonce(), rewound: make(chan struct{})}
}

// Keys is the store's keyspace.
func (s *Store) Keys() Keyspace { return s.keys }

// Get reads one key or range, linearizably. It blocks until the answer, ctx's
// end, or the request timeout.
func (s *Store) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	mark := s.mark.Load()
	resp, err := s.backend.get(ctx, key, opts...)
	if err != nil {
		return nil, err
	}
	return resp, s.observe(ctx, mark, resp.Header.Revision)
}

// Read makes several gets at one revision, linearizably. Ops other than gets
// are refused.
func (s *Store) Read(ctx context.Context, gets ...clientv3.Op) (*clientv3.TxnResponse, error) {
	for _, op := range gets {
		if !op.IsGet() || op.IsSerializable() {
			return nil, &InputError{Field: "gets", Value: string(op.KeyBytes()), Reason: "only linearizable gets can be read together"}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return s.txn(ctx, Txn{Then: gets})
}

// List reads all keys under prefix at one revision, for mirrors and listings.
func (s *Store) List(ctx context.Context, prefix string) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	mark := s.mark.Load()
	resp, err := s.backend.list(ctx, prefix)
	if err != nil {
		return nil, err
	}
	return resp, s.observe(ctx, mark, resp.Header.Revision)
}

// Watch watches a key or range from revision rev on, with RequireLeader, on this
// store's stream. It ends with ctx or with the channel; an error is in the last
// response.
func (s *Store) Watch(ctx context.Context, key string, rev int64, opts ...clientv3.OpOption) clientv3.WatchChan {
	return s.watchOn(ctx, s.streams.Load(), key, rev, opts...)
}

func (s *Store) watchOn(ctx context.Context, stream int64, key string, rev int64, opts ...clientv3.OpOption) clientv3.WatchChan {
	return s.backend.watch(s.watchContext(ctx, stream), key, append(opts, clientv3.WithRev(rev))...)
}

// watchContext names the gRPC stream that a watch shares. The client puts
// watches with equal metadata on one stream, so a new number is how a mirror
// leaves a stream that died silently, and the store's id is how a busy mirror
// stays away from a session's own-key watch.
func (s *Store) watchContext(ctx context.Context, stream int64) context.Context {
	return clientv3.WithRequireLeader(metadata.AppendToOutgoingContext(ctx,
		"leasekit-stream", fmt.Sprintf("%s-%d", s.id, stream)))
}

// Grant grants a lease of ttl under an ID that we choose, so that an answer that
// was lost is no lost lease: the same ID is asked for again. It returns the
// lease and the TTL that counts, which can be longer than asked for.
func (s *Store) Grant(ctx context.Context, ttl time.Duration) (clientv3.LeaseID, time.Duration, error) {
	id := clientv3.LeaseID(rand.Int64N(1<<62) + 1)
	seconds := int64((ttl + time.Second - 1) / time.Second)
	for try := 0; ; try++ {
		reqCtx, cancel := context.WithTimeout(ctx, requestTimeout)
		granted, err := s.backend.grant(reqCtx, id, seconds)
		cancel()
		switch {
		case err == nil:
			return id, time.Duration(granted) * time.Second, nil
		case isLeaseExists(err):
			// An earlier try of ours was applied; its answer was lost.
			return id, ttl, nil
		case ctx.Err() != nil || notApplied(err) || isAuthError(err):
			return 0, 0, fmt.Errorf("grant lease: %w", err)
		}
		if err := pause(ctx, try); err != nil {
			return 0, 0, fmt.Errorf("grant lease: %w", err)
		}
	}
}

// Revoke ends a lease and deletes its keys. A lease that is gone is no error.
func (s *Store) Revoke(ctx context.Context, id clientv3.LeaseID) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := s.backend.revoke(ctx, id); err != nil && !isLeaseNotFound(err) {
		return fmt.Errorf("revoke lease: %w", err)
	}
	return nil
}

// Usage returns the size of etcd's database and its quota, in bytes, as one
// reachable member reports them. A quota of 0 is not known.
func (s *Store) Usage(ctx context.Context) (size, quota int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return s.backend.usage(ctx)
}

// Rewound returns a channel that is closed when the cluster's history is seen
// to have gone back, as after a restore from a backup. A later call returns a
// fresh channel for the next time.
func (s *Store) Rewound() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rewound
}

func (s *Store) txn(ctx context.Context, t Txn) (*clientv3.TxnResponse, error) {
	mark := s.mark.Load()
	resp, err := s.backend.txn(ctx, t)
	if err != nil {
		return nil, err
	}
	return resp, s.observe(ctx, mark, resp.Header.Revision)
}

// observe keeps the high-water mark. Only an answer below the mark that was
// taken before its request was sent means anything, since answers arrive out of
// order; and one more read must confirm it.
func (s *Store) observe(ctx context.Context, before, rev int64) error {
	for {
		seen := s.mark.Load()
		if rev <= seen || s.mark.CompareAndSwap(seen, rev) {
			break
		}
	}
	if rev >= before {
		return nil
	}
	resp, err := s.backend.get(ctx, s.keys.Meta())
	if err != nil || resp.Header.Revision >= before {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mark.Load() >= before {
		s.mark.Store(resp.Header.Revision)
		close(s.rewound)
		s.rewound = make(chan struct{})
		s.log.Error("etcd's history went back: a restore from a backup?",
			zap.Int64("seen", before), zap.Int64("now", resp.Header.Revision))
	}
	return ErrHistoryRewound
}

// pause waits before retry number try (from 0): 25 ms doubling to 1 s, with
// jitter, or until ctx ends.
func pause(ctx context.Context, try int) error {
	d := min(25*time.Millisecond<<min(try, 6), time.Second)
	d = d/2 + rand.N(d)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return causeOf(ctx)
	case <-t.C:
		return nil
	}
}
