package simulate

import (
	"context"
	"strings"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// sort is what a request to etcd is for.
type sort int

const (
	reads      sort = iota // lists, polls and watches
	heartbeats             // whatever is about a lease
	writes                 // claims, assignments and saves
	sorts
)

// requests counts what the agents and dispatchers of a trial ask of etcd. Safe for
// concurrent use.
type requests [sorts]atomic.Int64

// reset begins anew.
func (r *requests) reset() {
	for i := range r {
		r[i].Store(0)
	}
}

// perJob is how many of each sort there were for each of so many jobs.
func (r *requests) perJob(jobs int) (each [sorts]float64) {
	for i := range r {
		each[i] = float64(r[i].Load()) / float64(jobs)
	}
	return each
}

// options make a client count. A request that is sent again counts again.
func (r *requests) options() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			r[sortOf(method, req)].Add(1)
			return invoke(ctx, method, req, reply, cc, opts...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			stream, err := open(ctx, desc, cc, method, opts...)
			if err != nil {
				return nil, err
			}
			return &countedStream{ClientStream: stream, requests: r, method: method}, nil
		}),
	}
}

// countedStream counts what is sent on a stream.
type countedStream struct {
	grpc.ClientStream
	requests *requests
	method   string
}

// SendMsg implements [grpc.ClientStream].
func (s *countedStream) SendMsg(m any) error {
	s.requests[sortOf(s.method, m)].Add(1)
	return s.ClientStream.SendMsg(m)
}

func sortOf(method string, req any) sort {
	switch r := req.(type) {
	case *pb.PutRequest, *pb.DeleteRangeRequest:
		return writes
	case *pb.TxnRequest:
		if changes(r) {
			return writes
		}
		return reads
	}
	if strings.HasPrefix(method, "/etcdserverpb.Lease/") {
		return heartbeats
	}
	return reads
}

// changes tells that a Txn may change something.
func changes(txn *pb.TxnRequest) bool {
	for _, ops := range [][]*pb.RequestOp{txn.Success, txn.Failure} {
		for _, op := range ops {
			if inner := op.GetRequestTxn(); op.GetRequestPut() != nil || op.GetRequestDeleteRange() != nil || inner != nil && changes(inner) {
				return true
			}
		}
	}
	return false
}
