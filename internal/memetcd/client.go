package memetcd

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Commit applies a Txn as the real client builds it, and returns the error that the
// real client makes of the answer.
func (s *Store) Commit(cmps []clientv3.Cmp, then, els []clientv3.Op) (*clientv3.TxnResponse, error) {
	return s.KV().Txn(context.Background()).If(cmps...).Then(then...).Else(els...).Commit()
}

// Request returns the message that the real client makes of a Txn.
func Request(cmps []clientv3.Cmp, then, els []clientv3.Op) *pb.TxnRequest {
	var r recorder
	_, _ = clientv3.NewKVFromKVClient(&r, nil).Txn(context.Background()).If(cmps...).Then(then...).Else(els...).Commit()
	return r.txn
}

// KV is the real client's interface to the store. It never blocks.
func (s *Store) KV() clientv3.KV { return clientv3.NewKVFromKVClient(kvClient{s}, nil) }

// kvClient answers what the real client sends.
type kvClient struct{ s *Store }

var _ pb.KVClient = kvClient{}

func (c kvClient) Range(_ context.Context, r *pb.RangeRequest, _ ...grpc.CallOption) (*pb.RangeResponse, error) {
	return c.s.Range(r)
}

// RangeStream is not there; the client falls back to Range.
func (c kvClient) RangeStream(context.Context, *pb.RangeRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[pb.RangeStreamResponse], error) {
	return nil, status.Error(codes.Unimplemented, "memetcd: no RangeStream")
}

func (c kvClient) Put(_ context.Context, r *pb.PutRequest, _ ...grpc.CallOption) (*pb.PutResponse, error) {
	return c.s.Put(r)
}

func (c kvClient) DeleteRange(_ context.Context, r *pb.DeleteRangeRequest, _ ...grpc.CallOption) (*pb.DeleteRangeResponse, error) {
	return c.s.DeleteRange(r)
}

func (c kvClient) Txn(_ context.Context, r *pb.TxnRequest, _ ...grpc.CallOption) (*pb.TxnResponse, error) {
	return c.s.Txn(r)
}

func (c kvClient) Compact(_ context.Context, r *pb.CompactionRequest, _ ...grpc.CallOption) (*pb.CompactionResponse, error) {
	if err := c.s.Compact(r.Revision); err != nil {
		return nil, err
	}
	return &pb.CompactionResponse{Header: &pb.ResponseHeader{Revision: c.s.Rev()}}, nil
}

// recorder keeps what the client sends.
type recorder struct {
	kvClient
	txn *pb.TxnRequest
}

func (r *recorder) Txn(_ context.Context, txn *pb.TxnRequest, _ ...grpc.CallOption) (*pb.TxnResponse, error) {
	r.txn = txn
	return &pb.TxnResponse{Header: &pb.ResponseHeader{}}, nil
}
