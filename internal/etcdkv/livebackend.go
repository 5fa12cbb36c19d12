package etcdkv

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/leasekit/leasekit/internal/fault"
)

// liveBackend sends nothing once its client is closed: errors of a closed client look
// like a connection that may come back. It tells why a read had no answer.
type liveBackend struct {
	Backend
	client *clientv3.Client
}

// WhileOpen returns a context that also ends when the client is closed.
func (s *Store) WhileOpen(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.client, func() { cancel(fault.ErrClientClosed) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

func (b liveBackend) closed() bool { return b.client.Ctx().Err() != nil }

func (b liveBackend) Txn(ctx context.Context, t Txn) (*clientv3.TxnResponse, error) {
	if b.closed() {
		return nil, fault.ErrClientClosed
	}
	if len(t.If) > 0 {
		return b.Backend.Txn(ctx, t) // one that is under way may have been applied
	}
	return unhurried(ctx, func(ctx context.Context) (*clientv3.TxnResponse, error) { return b.Backend.Txn(ctx, t) })
}

func (b liveBackend) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if b.closed() {
		return nil, fault.ErrClientClosed
	}
	resp, err := unhurried(ctx, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return b.Backend.Get(ctx, key, opts...)
	})
	if err != nil {
		return nil, b.explain(err)
	}
	return resp, nil
}

func (b liveBackend) Scan(ctx context.Context, from string, each func([]*mvccpb.KeyValue) bool, opts ...clientv3.OpOption) (*pb.ResponseHeader, error) {
	if b.closed() {
		return nil, fault.ErrClientClosed
	}
	header, err := b.Backend.Scan(ctx, from, each, opts...)
	if err != nil {
		return nil, b.explain(err)
	}
	return header, nil
}

func (b liveBackend) Grant(ctx context.Context, id clientv3.LeaseID, ttl int64) (int64, error) {
	if b.closed() {
		return 0, fault.ErrClientClosed
	}
	granted, err := unhurried(ctx, func(ctx context.Context) (int64, error) { return b.Backend.Grant(ctx, id, ttl) })
	if err != nil {
		return 0, b.explain(err)
	}
	return granted, nil
}

func (b liveBackend) Revoke(ctx context.Context, id clientv3.LeaseID) (int64, error) {
	if b.closed() {
		return 0, fault.ErrClientClosed
	}
	return b.Backend.Revoke(ctx, id)
}

func (b liveBackend) Usage(ctx context.Context) (size, quota int64, err error) {
	if b.closed() {
		return 0, 0, fault.ErrClientClosed
	}
	return b.Backend.Usage(ctx)
}

// unhurriedFor is how long a request may go on after its caller has gone. Nearly all of
// them are answered sooner.
const unhurriedFor = 500 * time.Millisecond

// unhurried makes a request that is not broken off the moment its caller goes: the client
// logs a warning for each that is, and whoever stops everything in order has nothing to
// be warned of. A deadline stays one.
func unhurried[T any](ctx context.Context, request func(ctx context.Context) (T, error)) (resp T, err error) {
	if ctx.Err() != nil {
		return resp, ctx.Err()
	}
	var cancel context.CancelFunc
	own := context.WithoutCancel(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		own, cancel = context.WithDeadline(own, deadline)
	} else {
		own, cancel = context.WithCancel(own)
	}
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		if Sleep(own, unhurriedFor) {
			cancel()
		}
	})()
	return request(own)
}

// explain adds to the error of a request that may be made again why there was no answer,
// as far as the connection can tell. The client itself says only that the time was over.
func (b liveBackend) explain(err error) error {
	if b.closed() {
		return fault.ErrClientClosed
	}
	if !errors.Is(err, context.DeadlineExceeded) && CodeOf(err) != codes.DeadlineExceeded {
		return err
	}
	if cause := b.trouble(); cause != "" {
		return fmt.Errorf("%w (%s)", err, cause)
	}
	return err
}

// troubleWithin bounds how long the connection is asked what is wrong with it.
const troubleWithin = 250 * time.Millisecond

// trouble is what is wrong with the connection, "" when that is not known.
func (b liveBackend) trouble() string {
	ctx, cancel := context.WithTimeout(context.Background(), troubleWithin)
	defer cancel()
	conn := b.client.ActiveConnection()
	if conn.GetState() == connectivity.Connecting {
		return "no answer to the attempts to connect to " + strings.Join(b.client.Endpoints(), ", ")
	}
	// Where there is no connection, this fails at once with the reason of the last attempt.
	// Where there is one, the member answers it from its own memory.
	st, err := pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{}, grpc.WaitForReady(false))
	switch {
	case err != nil && ctx.Err() != nil:
		return ""
	case err != nil:
		return plainCause(status.Convert(err).Message())
	case st.Leader == 0:
		return "the cluster has no leader: most of its members are down or cut off"
	}
	return ""
}

// plainCause takes the wrapping of gRPC's messages off:
//
//	connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: ..."
func plainCause(message string) string {
	for _, wrapping := range []string{"last connection error: ", "connection error: desc = "} {
		if _, inner, ok := strings.Cut(message, wrapping); ok {
			message = inner
		}
	}
	if inner, err := strconv.Unquote(message); err == nil {
		message = inner
	}
	for _, prefix := range []string{"transport: ", "Error while dialing: "} {
		message = strings.TrimPrefix(message, prefix)
	}
	switch {
	case strings.Contains(message, "handshake failed: ") && isHangUp(message):
		message += ": the server may speak plain text, or be no etcd"
	case strings.HasPrefix(message, "error reading server preface: ") && isHangUp(message), strings.Contains(message, "preface: http2"):
		message += ": the server may expect TLS, or be no etcd"
	}
	return message
}

// isHangUp tells whether the message is of a server that closed the connection. Which of
// these it is depends on what had arrived there by then.
func isHangUp(message string) bool {
	return strings.HasSuffix(message, ": EOF") || strings.HasSuffix(message, "connection reset by peer") || strings.HasSuffix(message, "broken pipe")
}
