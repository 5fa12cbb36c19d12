package history

import (
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

func get(q *pb.RangeRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: q}}
}

func TestUnwantedCallsAreTold(t *testing.T) {
	compare := []*pb.Compare{{}}
	sorted := &pb.RangeRequest{RangeEnd: []byte("z"), SortOrder: pb.RangeRequest_ASCEND, SortTarget: pb.RangeRequest_CREATE}
	for _, c := range []struct {
		want    string // "" for nothing
		bounded bool
		req     any
	}{
		{"", true, &pb.RangeRequest{RangeEnd: []byte("z"), Limit: 1}},
		{"", true, &pb.RangeRequest{SortOrder: pb.RangeRequest_DESCEND}}, // one key
		{"without a deadline", false, &pb.PutRequest{}},
		{"sorted", true, sorted},
		{"sorted", true, &pb.RangeRequest{RangeEnd: []byte("z"), SortOrder: pb.RangeRequest_DESCEND}},
		{"filtered", true, &pb.RangeRequest{RangeEnd: []byte("z"), MaxCreateRevision: 3}},
		{"sorted", true, &pb.TxnRequest{Success: []*pb.RequestOp{get(sorted)}}},
		{"compares alone", true, &pb.TxnRequest{Compare: compare}},
		{"compares alone", true, &pb.TxnRequest{Compare: compare, Failure: []*pb.RequestOp{get(&pb.RangeRequest{Serializable: true})}}},
		{"", true, &pb.TxnRequest{Compare: compare, Failure: []*pb.RequestOp{get(&pb.RangeRequest{})}}},
		{"", true, &pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{
			Compare: compare, Success: []*pb.RequestOp{get(&pb.RangeRequest{})},
		}}}}}},
	} {
		var r RPCs
		r.look("M", c.bounded, c.req)
		err := r.Err()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %q", c.req, err, c.want)
		}
	}
}
