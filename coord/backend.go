package coord

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// Txn is a transaction as a plain value, built by a pure function and carried
// by a [Committer]. Compares see the state before the Txn.
type Txn struct {
	// If must hold for Then to happen; otherwise Else happens.
	If []clientv3.Cmp
	// Then may put, delete and get single keys, and nest one more Txn.
	Then []clientv3.Op
	// Else only gets single keys: why the Txn lost. In a large batch they are read
	// after it, as they were then; when nobody can, the outcome is [ErrRefused].
	Else []clientv3.Op
	// Origin labels who sends it. After etcd refused a unit outright, units of
	// the same origin travel alone for a while, so that a broken caller cannot
	// hold up the others.
	Origin string
	// InOrder keeps the Txn behind the Txns with InOrder that were handed over before it,
	// whatever keys they write.
	InOrder bool
}

// reads is a key that every permission to send the Txn includes reading: one that it
// compares, or else gets. Every Txn of ours has one.
func (t Txn) reads() string {
	if len(t.If) > 0 {
		return string(t.If[0].KeyBytes())
	}
	for _, op := range t.Then {
		if op.IsGet() {
			return string(op.KeyBytes())
		}
	}
	return ""
}

// backend is the whole of etcd that Leasekit uses, so that something else can
// stand in for it.
type backend interface {
	txn(ctx context.Context, t Txn) (*clientv3.TxnResponse, error)
	get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error)
	scan(ctx context.Context, from string, each func([]*mvccpb.KeyValue) bool, opts ...clientv3.OpOption) (*pb.ResponseHeader, error)
	watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan
	requestProgress(ctx context.Context) error
	// connection blocks until etcd is connected, or is not: a loss is seen however soon
	// the connection is back. It is false when ctx ended before, or the client.
	connection(ctx context.Context, up bool) bool
	grant(ctx context.Context, id clientv3.LeaseID, ttl int64) (int64, error)
	renewer(id clientv3.LeaseID) renewer
	// revoke returns the revision behind it.
	revoke(ctx context.Context, id clientv3.LeaseID) (int64, error)
	usage(ctx context.Context) (size, quota int64, err error)
}

// renewer renews one lease over its own stream.
type renewer interface {
	// renew sends one keepalive and returns the TTL that the answer grants; 0 or
	// less means that the lease is gone. After an error or the end of ctx the
	// stream is dropped and the next call opens another one, which the client's
	// balancer puts on another endpoint.
	renew(ctx context.Context) (int64, error)
	close()
}

// etcdBackend is the backend on a real client.
type etcdBackend struct {
	client *clientv3.Client
	lease  pb.LeaseClient
}

var _ backend = (*etcdBackend)(nil)

func newEtcdBackend(c *clientv3.Client) *etcdBackend {
	return &etcdBackend{client: c, lease: clientv3.RetryLeaseClient(c)}
}

func (b *etcdBackend) txn(ctx context.Context, t Txn) (*clientv3.TxnResponse, error) {
	return b.client.Txn(ctx).If(t.If...).Then(t.Then...).Else(t.Else...).Commit()
}

func (b *etcdBackend) get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	return b.client.Get(ctx, key, opts...)
}

// scan hands on a whole range at one revision, piece by piece: streamed where the
// server can, since a unary answer is built whole in its memory. Pages with a limit
// are worse than either: each makes the server count the rest. When each returns
// false the rest is not sent, and the header is nil.
func (b *etcdBackend) scan(ctx context.Context, from string, each func([]*mvccpb.KeyValue) bool, opts ...clientv3.OpOption) (*pb.ResponseHeader, error) {
	header, err := b.stream(ctx, from, opts, each)
	if isUnimplemented(err) {
		resp, err := b.client.Get(ctx, from, opts...)
		if err != nil || !each(resp.Kvs) {
			return nil, err
		}
		return resp.Header, nil
	}
	return header, err
}

// stream is a streamed scan. How long it takes depends on its size, but an endpoint
// that is alive keeps sending.
func (b *etcdBackend) stream(ctx context.Context, from string, opts []clientv3.OpOption, each func([]*mvccpb.KeyValue) bool) (header *pb.ResponseHeader, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(requestTimeout, func() { cancel(errStalled) })
	defer stalled.Stop()
	chunks, err := b.client.GetStream(ctx, from, opts...)
	if err != nil {
		return nil, broken(ctx, err)
	}
	enough := false
	for chunk := range chunks { // to its end even after an error, which frees the sender
		stalled.Reset(requestTimeout)
		if err == nil {
			err = chunk.Err()
		}
		if chunk.RangeResponse == nil || enough {
			continue
		}
		if enough = !each(chunk.Kvs); enough {
			cancel(nil)
		}
		header = chunk.Header // only the last one has it
	}
	switch {
	case enough:
		return nil, nil
	case err != nil:
		return nil, broken(ctx, err)
	case header == nil:
		return nil, errStalled
	}
	return header, nil
}

// broken is why a streamed list ended. A connection that broke looks to the client
// like a cancellation, which it is only where ctx has ended.
func broken(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %v", causeOf(ctx), err)
	case errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled:
		return status.Error(codes.Unavailable, "the connection broke before all was read")
	}
	return err
}

// errStalled is the end of a list that stopped half way.
var errStalled = fmt.Errorf("the endpoint stopped sending: %w", context.DeadlineExceeded)

func (b *etcdBackend) watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	return b.client.Watch(ctx, key, opts...)
}

func (b *etcdBackend) requestProgress(ctx context.Context) error {
	return b.client.RequestProgress(ctx)
}

func (b *etcdBackend) connection(ctx context.Context, up bool) bool {
	conn := b.client.ActiveConnection()
	for s := conn.GetState(); (s == connectivity.Ready) != up; s = conn.GetState() {
		if s == connectivity.Shutdown || !conn.WaitForStateChange(ctx, s) {
			return false
		}
		if !up {
			return true
		}
	}
	return ctx.Err() == nil
}

func (b *etcdBackend) grant(ctx context.Context, id clientv3.LeaseID, ttl int64) (int64, error) {
	resp, err := b.lease.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: int64(id), TTL: ttl})
	if err != nil {
		return 0, rpctypes.Error(err) // known however it is wrapped
	}
	return resp.TTL, nil
}

func (b *etcdBackend) revoke(ctx context.Context, id clientv3.LeaseID) (int64, error) {
	resp, err := b.lease.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: int64(id)})
	if err != nil {
		return 0, rpctypes.Error(err)
	}
	return resp.Header.Revision, nil
}

func (b *etcdBackend) usage(ctx context.Context) (size, quota int64, err error) {
	var firstErr error
	eps := b.client.Endpoints()
	for _, ep := range eps {
		// A silent endpoint must not use up the others' time.
		epCtx, cancel := context.WithTimeout(ctx, requestTimeout/time.Duration(len(eps)))
		st, err := b.client.Status(epCtx, ep)
		cancel()
		if err == nil {
			return st.DbSize, st.DbSizeQuota, nil
		}
		if firstErr == nil {
			firstErr = err
		}
	}
	return 0, 0, firstErr
}

func (b *etcdBackend) renewer(id clientv3.LeaseID) renewer {
	return &streamRenewer{lease: b.lease, id: id}
}

// streamRenewer keeps one keepalive stream of its own. The stock client shares
// one stream among all leases, counts from the receipt of an answer and keeps a
// dead connection; none of the three is safe for a trust window.
type streamRenewer struct {
	lease pb.LeaseClient
	id    clientv3.LeaseID

	mu     sync.Mutex
	stream pb.Lease_LeaseKeepAliveClient
	cancel context.CancelFunc
}

func (r *streamRenewer) renew(ctx context.Context) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.open(ctx); err != nil {
		return 0, err
	}
	// Ending the stream is the only way to end a blocked Recv.
	stop := context.AfterFunc(ctx, r.cancel)
	defer stop()
	err := r.stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(r.id)})
	if err == nil {
		var resp *pb.LeaseKeepAliveResponse
		if resp, err = r.stream.Recv(); err == nil {
			return resp.TTL, nil
		}
	}
	r.drop()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return 0, err
}

func (r *streamRenewer) open(ctx context.Context) error {
	if r.stream != nil {
		return nil
	}
	streamCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	defer stop()
	stream, err := r.lease.LeaseKeepAlive(streamCtx, grpc.WaitForReady(true))
	if err != nil {
		cancel()
		return err
	}
	r.stream, r.cancel = stream, cancel
	return nil
}

func (r *streamRenewer) drop() {
	if r.cancel != nil {
		r.cancel()
	}
	r.stream, r.cancel = nil, nil
}

func (r *streamRenewer) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop()
}

func isUnimplemented(err error) bool {
	return err != nil && (status.Code(err) == codes.Unimplemented || strings.Contains(err.Error(), "Unimplemented"))
}

// tooLargeToSend recognises the client's own refusal, which shares its code with
// NOSPACE: only the message tells them apart.
func tooLargeToSend(err error) bool {
	return err != nil && strings.Contains(err.Error(), "trying to send message larger than max")
}
