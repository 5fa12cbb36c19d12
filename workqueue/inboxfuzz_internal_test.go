package workqueue

import (
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/job/jobtest"
	"github.com/leasekit/leasekit/internal/mirror"
)

// Whatever lies under an inbox, it is taken and forgotten again.
func FuzzInbox(f *testing.F) {
	keys := jobtest.Txns(f, "/r/").Keys
	const me = "me.0123456789abcdef"
	for _, v := range append(jobtest.Golden(f, "../internal/job/testdata"), nil, []byte("null"), []byte("7"), []byte(strings.Repeat("{", 99))) {
		f.Add(keys.Assigned(me, "x"), v, true)
		f.Add(keys.Inbox(me)+"\xff", v, false)
	}
	f.Fuzz(func(t *testing.T, key string, junk []byte, reset bool) {
		b := &inbox{
			keys: keys, sid: me, entries: map[string]*inboxEntry{}, changed: make(chan struct{}, 1), has: func(string) bool { return false },
			keep: func(job.Snapshot) {}, forget: func(string) {}, unread: func(*mvccpb.KeyValue) {},
		}
		bad := &mvccpb.KeyValue{Key: []byte(key), Value: junk, ModRevision: 3, CreateRevision: 3}
		for _, s := range []mirror.Sink{b, ownEntry{b}} {
			if reset {
				s.Reset([]*mvccpb.KeyValue{bad}, 3)
			} else {
				s.Apply([]*clientv3.Event{{Type: clientv3.EventTypePut, Kv: bad}}, 3)
			}
			s.Apply([]*clientv3.Event{{Type: clientv3.EventTypeDelete, Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: 4}}}, 4)
		}
		if len(b.entries) != 0 {
			t.Errorf("%d entries are left behind by %q", len(b.entries), key)
		}
	})
}
