// Package etcdkv is all access to etcd: reads, watches, leases, and Txns as plain values.
// It notices when etcd's history goes back. Whoever writes goes through package lane.
package etcdkv

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/leasekit/leasekit/internal/fault"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// RequestTimeout bounds one request to etcd. A Txn that ran into it is repeated
// in its lane, so a short bound costs nothing but the repeat and moves the
// request to another endpoint.
const RequestTimeout = 3 * time.Second

// Store is one root of one etcd cluster: the keys and the few calls that
// Leasekit makes. It notices when the cluster's history goes back. Safe for
// concurrent use. It owns no goroutine and needs no Close; the client stays the
// caller's.
type Store struct {
	keys    keyspace.Keyspace
	backend Backend
	log     *zap.Logger
	client  context.Context // ends when the client is closed

	high *highWater
	// id and streams name the watch streams: a new number is a new gRPC stream.
	id      string
	streams atomic.Int64
}

// NewStore returns the store for one root; root "" means /leasekit/, a nil
// logger logs nothing. It does not talk to etcd. A client that is closed, or of which
// only a part is in a namespace, is refused.
func NewStore(client *clientv3.Client, root string, log *zap.Logger) (*Store, error) {
	keys, err := keyspace.New(root)
	if err != nil {
		return nil, err
	}
	if err := checkClient(client); err != nil {
		return nil, err
	}
	s := NewStoreOn(liveBackend{NewBackend(client), client}, keys, log)
	s.client = client.Ctx()
	return s, nil
}

// NewStoreOn is a store on any backend; a nil logger logs nothing.
func NewStoreOn(b Backend, keys keyspace.Keyspace, log *zap.Logger) *Store {
	if log == nil {
		log = zap.NewNop()
	}
	return &Store{keys: keys, backend: b, log: log, client: context.Background(), id: keyspace.NewNonce(), high: newHighWater()}
}

// Keys is the store's keyspace.
func (s *Store) Keys() keyspace.Keyspace { return s.keys }

// Log is where the store, and what is built on it, says what no caller sees.
func (s *Store) Log() *zap.Logger { return s.log }

// Closed is closed when the client was closed.
func (s *Store) Closed() <-chan struct{} { return s.client.Done() }

// IsClosed tells whether the client was closed.
func (s *Store) IsClosed() bool { return s.client.Err() != nil }

// Renewer renews one lease on a stream of its own. Its owner closes it.
func (s *Store) Renewer(id clientv3.LeaseID) Renewer { return s.backend.Renewer(id) }

// Connection blocks until etcd is connected, or is not: see [Backend].
func (s *Store) Connection(ctx context.Context, up bool) bool { return s.backend.Connection(ctx, up) }

// RequestProgress asks the watches of ctx's stream for a sign of life: see
// [Store.WatchContext].
func (s *Store) RequestProgress(ctx context.Context) error { return s.backend.RequestProgress(ctx) }

// Seen is the highest revision that the cluster is known to have reached.
func (s *Store) Seen() Mark { return s.high.read() }

// Reached lifts what was seen to revision rev of that cluster, which was reported to a
// request that was sent after before was read.
func (s *Store) Reached(before Mark, rev int64, cluster uint64) { s.high.raise(before, rev, cluster) }

// LeaveStreams moves what [Store.Watch] starts from now on to another stream.
func (s *Store) LeaveStreams() { s.streams.Add(1) }

// Get reads one key or range, linearizably. It blocks until the answer, ctx's
// end, or 3 s have passed. With [fault.ErrHistoryRewound], and only with that error,
// there is an answer too: what the cluster holds now.
func (s *Store) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	reqCtx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	before := s.high.read()
	resp, err := s.backend.Get(reqCtx, key, opts...)
	if err != nil {
		return nil, unanswered(ctx, err)
	}
	return resp, s.observe(reqCtx, before, resp.Header, key)
}

// unanswered tells a request that had its time from one whose caller had no more.
func unanswered(caller context.Context, err error) error {
	if caller.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded) {
		return fmt.Errorf("etcd gave no answer within %v: %w", RequestTimeout, err)
	}
	return err
}

// Read makes several gets at one revision, linearizably; otherwise it is like
// [Store.Get]. Ops other than gets are refused.
func (s *Store) Read(ctx context.Context, gets ...clientv3.Op) (*clientv3.TxnResponse, error) {
	if len(gets) == 0 {
		// etcd would answer a Txn without ops from one member's local state.
		return nil, &fault.InputError{Field: "gets", Value: "", Reason: "there must be at least one"}
	}
	for _, op := range gets {
		if !op.IsGet() || op.IsSerializable() {
			return nil, &fault.InputError{Field: "gets", Value: string(op.KeyBytes()), Reason: "only linearizable gets can be read together"}
		}
	}
	reqCtx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	resp, err := s.Txn(reqCtx, Txn{Then: gets})
	return resp, unanswered(ctx, err)
}

// Watch watches a key or range from revision rev on, with RequireLeader. It
// blocks until the server has confirmed the watch or ctx ends, and goes on until
// ctx or the channel ends; an error is in the last response. A channel that ends
// without one, while ctx lives, lost its connection: etcd may be back with another
// history, as after a restore, in which rev means something else, so read before
// watching again. It does not notice a connection that died silently: a mirror does.
func (s *Store) Watch(ctx context.Context, key string, rev int64, opts ...clientv3.OpOption) clientv3.WatchChan {
	return s.untilInterrupted(ctx, func(ctx context.Context) clientv3.WatchChan {
		return s.WatchOn(ctx, fmt.Sprintf("watch-%d", s.streams.Load()), key, rev, opts...)
	})
}

// WatchOn is Watch on a stream of that name, which goes on when the connection is lost.
func (s *Store) WatchOn(ctx context.Context, stream, key string, rev int64, opts ...clientv3.OpOption) clientv3.WatchChan {
	return s.backend.Watch(s.WatchContext(ctx, stream), key, append(opts, clientv3.WithRev(rev))...)
}

// WatchContext names the gRPC stream that a watch shares. The client puts
// watches with equal metadata on one stream, so a new name is how one leaves a
// stream that died silently, and how a session's own-key watch stays away from
// busy ones.
func (s *Store) WatchContext(ctx context.Context, stream string) context.Context {
	ctx = metadata.AppendToOutgoingContext(ctx, "leasekit-stream", s.id+"-"+stream)
	return clientv3.WithRequireLeader(ctx) //mutant:watch-requires-leader
}

// Grant grants a lease of ttl under an ID that we choose, so that an answer that
// was lost is no lost lease: the same ID is asked for again. It returns the
// lease and the TTL that counts, which can be longer than asked for.
func (s *Store) Grant(ctx context.Context, ttl time.Duration) (clientv3.LeaseID, time.Duration, error) {
	id := clientv3.LeaseID(rand.Int64N(1<<62) + 1)
	seconds := int64(ttl / time.Second)
	if ttl%time.Second > 0 {
		seconds++
	}
	for try := 0; ; try++ {
		reqCtx, cancel := context.WithTimeout(ctx, RequestTimeout)
		granted, err := s.backend.Grant(reqCtx, id, seconds)
		cancel()
		switch {
		case err == nil:
			return id, time.Duration(granted) * time.Second, nil
		case isLeaseExists(err):
			// An earlier try of ours was applied; its answer was lost.
			return id, ttl, nil
		case ctx.Err() != nil:
			return 0, 0, fmt.Errorf("grant lease: %w: %w", fault.CauseOf(ctx), err)
		case NotApplied(err) || IsAuthError(err) || IsNoSpace(err):
			return 0, 0, fmt.Errorf("grant lease: %w", WithWayOut(err))
		}
		if perr := Pause(ctx, try); perr != nil {
			return 0, 0, fmt.Errorf("grant lease: %w: %w", perr, err)
		}
	}
}

// revokeTries is how often a revocation is sent: enough to find the endpoint
// that answers. What fails then is left to the lease's TTL.
const revokeTries = 3

// Revoke ends a lease and deletes its keys. A lease that is gone is no error. It
// blocks until the answer, ctx's end, or three requests without an answer; after
// an error the lease may or may not be gone.
func (s *Store) Revoke(ctx context.Context, id clientv3.LeaseID) error {
	_, err := s.RevokeAt(ctx, id)
	return err
}

// RevokeAt is Revoke; rev is the revision at which the lease's keys went, 0 when nothing
// tells: then the lease was gone, or an answer was lost.
func (s *Store) RevokeAt(ctx context.Context, id clientv3.LeaseID) (rev int64, err error) {
	for try := 0; ; try++ {
		reqCtx, cancel := context.WithTimeout(ctx, RequestTimeout)
		rev, err := s.backend.Revoke(reqCtx, id)
		cancel()
		switch {
		case err == nil:
			return rev, nil
		case IsLeaseNotFound(err):
			return 0, nil
		case ctx.Err() != nil:
			return 0, fmt.Errorf("revoke lease: %w: %w", fault.CauseOf(ctx), err)
		case NotApplied(err) || IsAuthError(err) || try+1 >= revokeTries:
			return 0, fmt.Errorf("revoke lease: %w", err)
		}
		if perr := Pause(ctx, try); perr != nil {
			return 0, fmt.Errorf("revoke lease: %w: %w", perr, err)
		}
	}
}

// Usage returns the size of etcd's database and its quota, in bytes, as one
// reachable member reports them. A quota of 0 is not known.
func (s *Store) Usage(ctx context.Context) (size, quota int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	return s.backend.Usage(ctx)
}

// Rewound returns a channel that is closed when the cluster's history is next
// seen to have gone back, as after a restore from a backup. Keep the channel: a
// later call returns a fresh one, for the time after.
func (s *Store) Rewound() <-chan struct{} { return s.high.next() }

// Txn sends a Txn once, for package lane and for writes whose own success falsifies their
// guard: after an error it may have been applied.
func (s *Store) Txn(ctx context.Context, t Txn) (*clientv3.TxnResponse, error) {
	before := s.high.read()
	resp, err := s.backend.Txn(ctx, t)
	if err != nil {
		return nil, err
	}
	return resp, s.observe(ctx, before, resp.Header, t.reads())
}

// observe judges the header of a linearizable answer. Only one that belies the mark
// that was taken before its request was sent means anything, since answers
// arrive out of order; and one more read must confirm it. That is of a key which the
// request read, or of the first one of its range: another one the caller may have no
// right to read, and would never hear of the rewind.
func (s *Store) observe(ctx context.Context, before Mark, header *pb.ResponseHeader, key string) error {
	if !before.belies(header) { //mutant:rewind-noticed
		s.high.raise(before, header.Revision, header.ClusterId)
		return nil
	}
	resp, err := s.backend.Get(ctx, key, clientv3.WithKeysOnly())
	if err != nil || /*mutant:rewind-confirmed*/ !before.belies(resp.Header) {
		return nil // no answer tells nothing; the next low one is judged again
	}
	if s.high.rewind(before, resp.Header) {
		s.log.Error("etcd's history went back: a restore from a backup?",
			zap.Int64("seen", before.rev), zap.Int64("now", resp.Header.Revision))
	}
	return fault.ErrHistoryRewound
}
