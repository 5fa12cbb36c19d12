package history

import (
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func put(key string, rev, version int64) *clientv3.Event {
	return &clientv3.Event{Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: rev, CreateRevision: rev - version + 1, Version: version}}
}

func gone(key string, rev int64) *clientv3.Event {
	return &clientv3.Event{Type: clientv3.EventTypeDelete, Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: rev}}
}

func response(events ...*clientv3.Event) clientv3.WatchResponse {
	return clientv3.WatchResponse{Events: events}
}

func progress(rev int64) clientv3.WatchResponse {
	return clientv3.WatchResponse{Header: &pb.ResponseHeader{Revision: rev}}
}

func TestBrokenWatchesAreNoticed(t *testing.T) {
	for _, c := range []struct {
		name, want string
		responses  []clientv3.WatchResponse
	}{
		{"revisions fall within a response", "not ordered", []clientv3.WatchResponse{response(put("/a", 3, 1), put("/b", 2, 1))}},
		{"revisions fall between responses", "not ordered", []clientv3.WatchResponse{response(put("/a", 3, 1)), response(put("/b", 2, 1))}},
		{"a revision comes in two parts", "not whole", []clientv3.WatchResponse{response(put("/a", 3, 1)), response(put("/b", 3, 1))}},
		{"a key twice at a revision", "not unique", []clientv3.WatchResponse{response(put("/a", 3, 1), put("/a", 3, 2))}},
		{"a version is left out", "not reliable", []clientv3.WatchResponse{response(put("/a", 3, 1)), response(put("/a", 5, 3))}},
		{"a creation is left out", "not reliable", []clientv3.WatchResponse{response(put("/a", 5, 2))}},
		{"a deletion is left out", "not reliable", []clientv3.WatchResponse{response(put("/a", 3, 1)), response(put("/a", 5, 1))}},
		{"the deletion of an unknown key", "not reliable", []clientv3.WatchResponse{response(gone("/a", 3))}},
		{"an event below promised progress", "no bookmark", []clientv3.WatchResponse{progress(5), response(put("/a", 4, 1))}},
	} {
		b := newBooks(1, []string{"/"})
		var err error
		for _, r := range c.responses {
			if err == nil {
				err = b.take(r, 1)
			}
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

func TestRepeatedEventsAreDroppedOnceOnly(t *testing.T) {
	b := newBooks(1, []string{"/"})
	b.opened(1)
	first := response(put("/a", 2, 1), put("/b", 3, 1))
	if err := b.take(first, 1); err != nil {
		t.Fatal(err)
	}
	b.opened(3)
	if err := b.take(response(put("/b", 3, 1), put("/a", 4, 2)), 1); err != nil {
		t.Fatal(err)
	}
	if len(b.events) != 3 || b.seen() != 4 {
		t.Errorf("got %d events up to %d, want 3 up to 4", len(b.events), b.seen())
	}
	if err := b.take(first, 1); err == nil {
		t.Error("events that come again without a reconnection pass")
	}
}

// A witness that begins in the middle knows nothing of what was there.
func TestBooksFromTheMiddle(t *testing.T) {
	b := newBooks(10, []string{"/a"})
	if err := b.take(response(put("/a", 10, 7), gone("/a/x", 11), put("/b", 12, 3)), 1); err != nil {
		t.Fatal(err)
	}
	if len(b.events) != 2 {
		t.Errorf("got %d events, want the two that are wanted", len(b.events))
	}
	for _, ev := range []*clientv3.Event{put("/a", 13, 9), put("/a/x", 14, 2)} {
		if err := b.take(response(ev), 1); err == nil {
			t.Errorf("a version that was left out passes: %v", ev.Kv)
		}
	}
	if err := newBooksFrom(10).take(response(put("/a", 9, 1)), 1); err == nil {
		t.Error("an event of before the beginning passes")
	}
}

func newBooksFrom(rev int64) *books {
	b := newBooks(rev, []string{"/"})
	return &b
}
