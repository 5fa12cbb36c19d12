package etcdkv

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// One rewind is announced once, however many requests run into it, and what was sent
// before it does not lift the new history's mark.
func TestHighWater(t *testing.T) {
	h := newHighWater()
	h.raise(h.read(), 100, 1)
	before := h.read()
	if !h.rewind(before, &pb.ResponseHeader{Revision: 40, ClusterId: 1}) {
		t.Error("a rewind is no news")
	}
	if h.rewind(before, &pb.ResponseHeader{Revision: 41, ClusterId: 1}) {
		t.Error("another request ran into the same rewind, and it was announced again")
	}
	h.raise(before, 100, 1)
	if got := h.read().rev; got != 40 {
		t.Errorf("the mark is at %d, lifted by an answer from before the rewind; want 40", got)
	}
	h.raise(h.read(), 50, 1)
	if got := h.read().rev; got != 50 {
		t.Errorf("the mark is at %d, want 50", got)
	}
}
