package simulate

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

func TestSortOfRequests(t *testing.T) {
	read := &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{}}}
	put := &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{}}}
	within := &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{Failure: []*pb.RequestOp{read, put}}}}
	for _, tt := range []struct {
		method string
		req    any
		want   sort
	}{
		{"/etcdserverpb.KV/Range", &pb.RangeRequest{}, reads},
		{"/etcdserverpb.KV/Put", &pb.PutRequest{}, writes},
		{"/etcdserverpb.KV/DeleteRange", &pb.DeleteRangeRequest{}, writes},
		{"/etcdserverpb.KV/Txn", &pb.TxnRequest{Success: []*pb.RequestOp{read}}, reads},
		{"/etcdserverpb.KV/Txn", &pb.TxnRequest{Success: []*pb.RequestOp{read, put}}, writes},
		{"/etcdserverpb.KV/Txn", &pb.TxnRequest{Failure: []*pb.RequestOp{within}}, writes},
		{"/etcdserverpb.Watch/Watch", &pb.WatchRequest{}, reads},
		{"/etcdserverpb.Lease/LeaseKeepAlive", &pb.LeaseKeepAliveRequest{}, heartbeats},
		{"/etcdserverpb.Lease/LeaseGrant", &pb.LeaseGrantRequest{}, heartbeats},
	} {
		if got := sortOf(tt.method, tt.req); got != tt.want {
			t.Errorf("%s %T: got %d, want %d", tt.method, tt.req, got, tt.want)
		}
	}
}
