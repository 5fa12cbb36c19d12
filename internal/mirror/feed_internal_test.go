package mirror

import (
	"slices"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// revisions is a sink that notes the revisions of the events that reach it.
type revisions struct{ got []int64 }

func (r *revisions) Reset([]*mvccpb.KeyValue, int64) {}

func (r *revisions) Apply(events []*clientv3.Event, _ int64) {
	for _, ev := range events {
		r.got = append(r.got, ev.Kv.ModRevision)
	}
}

// A watch that is opened again repeats what was seen, and progress overtakes events:
// each event reaches the sink once, and none is dropped for a hint's sake.
func TestFeedHandsOnEachEventOnce(t *testing.T) {
	sink := &revisions{}
	f := &feed{sink: sink, rev: 10}
	for _, resp := range []struct {
		header int64
		events []int64
	}{
		{12, []int64{9, 10, 11}}, // repeated, but for the last
		{12, []int64{11}},        // repeated
		{30, nil},                // progress, ahead of what is on its way
		{30, []int64{15}},
		{30, []int64{15, 20}},
	} {
		r := clientv3.WatchResponse{Header: &pb.ResponseHeader{Revision: resp.header}}
		for _, rev := range resp.events {
			r.Events = append(r.Events, &clientv3.Event{Kv: &mvccpb.KeyValue{ModRevision: rev}})
		}
		f.apply(r)
	}
	if want := []int64{11, 15, 20}; !slices.Equal(sink.got, want) {
		t.Errorf("the sink got %v, want %v", sink.got, want)
	}
}
