package etcdkv

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

	"github.com/leasekit/leasekit/internal/fault"
)

// Backend is the whole of etcd that Leasekit uses, so that something else can
// stand in for it.
type Backend interface {
	Txn(ctx context.Context, t Txn) (*clientv3.TxnResponse, error)
	Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error)
	Scan(ctx context.Context, from string, each func([]*mvccpb.KeyValue) bool, opts ...clientv3.OpOption) (*pb.ResponseHeader, error)
	Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan
	RequestProgress(ctx context.Context) error
	// Connection blocks until etcd is connected, or is not: a loss is seen however soon
	// the connection is back. It is false when ctx ended before, or the client.
	Connection(ctx context.Context, up bool) bool
	Grant(ctx context.Context, id clientv3.LeaseID, ttl int64) (int64, error)
	Renewer(id clientv3.LeaseID) Renewer
	// revoke returns the revision behind it.
	Revoke(ctx context.Context, id clientv3.LeaseID) (int64, error)
	Usage(ctx context.Context) (size, quota int64, err error)
}

// Renewer renews one lease over its own stream.
type Renewer interface {
	// renew sends one keepalive and returns the TTL that the answer grants; 0 or
	// less means that the lease is gone. After an error or the end of ctx the
	// stream is dropped and the next call opens another one, which the client's
	// balancer puts on another endpoint.
	Renew(ctx context.Context) (int64, error)
	Close()
}

// etcdBackend is the backend on a real client.
type etcdBackend struct {
	client *clientv3.Client
	lease  pb.LeaseClient
}

var _ Backend = (*etcdBackend)(nil)

// NewBackend is a client as a backend, without what [NewStore] puts around it.
func NewBackend(c *clientv3.Client) *etcdBackend {
	return &etcdBackend{client: c, lease: clientv3.RetryLeaseClient(c)}
}

func (b *etcdBackend) Txn(ctx context.Context, t Txn) (*clientv3.TxnResponse, error) {
	return b.client.Txn(ctx).If(t.If...).Then(t.Then...).Else(t.Else...).Commit()
}

func (b *etcdBackend) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	return b.client.Get(ctx, key, opts...)
}

// Scan hands on a whole range at one revision, piece by piece: streamed where the
// server can, since a unary answer is built whole in its memory. Pages with a limit
// are worse than either: each makes the server count the rest. When each returns
// false the rest is not sent, and the header is nil.
func (b *etcdBackend) Scan(ctx context.Context, from string, each func([]*mvccpb.KeyValue) bool, opts ...clientv3.OpOption) (*pb.ResponseHeader, error) {
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
	stalled := time.AfterFunc(RequestTimeout, func() { cancel(errStalled) })
	defer stalled.Stop()
	chunks, err := b.client.GetStream(ctx, from, opts...)
	if err != nil {
		return nil, broken(ctx, err)
	}
	enough := false
	for chunk := range chunks { // to its end even after an error, which frees the sender
		stalled.Reset(RequestTimeout)
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
		return fmt.Errorf("%w: %v", fault.CauseOf(ctx), err)
	case errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled:
		return status.Error(codes.Unavailable, "the connection broke before all was read")
	}
	return err
}

// errStalled is the end of a list that stopped half way.
var errStalled = fmt.Errorf("the endpoint stopped sending: %w", context.DeadlineExceeded)

func (b *etcdBackend) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	return b.client.Watch(ctx, key, opts...)
}

func (b *etcdBackend) RequestProgress(ctx context.Context) error {
	return b.client.RequestProgress(ctx)
}

func (b *etcdBackend) Connection(ctx context.Context, up bool) bool {
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

func (b *etcdBackend) Grant(ctx context.Context, id clientv3.LeaseID, ttl int64) (int64, error) {
	resp, err := b.lease.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: int64(id), TTL: ttl})
	if err != nil {
		return 0, rpctypes.Error(err) // known however it is wrapped
	}
	return resp.TTL, nil
}

func (b *etcdBackend) Revoke(ctx context.Context, id clientv3.LeaseID) (int64, error) {
	resp, err := b.lease.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: int64(id)})
	if err != nil {
		return 0, rpctypes.Error(err)
	}
	return resp.Header.Revision, nil
}

func (b *etcdBackend) Usage(ctx context.Context) (size, quota int64, err error) {
	var firstErr error
	eps := b.client.Endpoints()
	for _, ep := range eps {
		// A silent endpoint must not use up the others' time.
		epCtx, cancel := context.WithTimeout(ctx, RequestTimeout/time.Duration(len(eps)))
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

func (b *etcdBackend) Renewer(id clientv3.LeaseID) Renewer {
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

func (r *streamRenewer) Renew(ctx context.Context) (int64, error) {
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

func (r *streamRenewer) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop()
}

func isUnimplemented(err error) bool {
	return err != nil && (status.Code(err) == codes.Unimplemented || strings.Contains(err.Error(), "Unimplemented"))
}
