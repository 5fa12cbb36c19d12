package ready

import (
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/job/jobtest"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/mirror"
)

// Whatever lies under a queue, the mirror takes it, forgets it again, and shows the
// sound job beside it.
func FuzzMirror(f *testing.F) {
	space, err := keyspace.New("/r/")
	if err != nil {
		f.Fatal(err)
	}
	keys := space.Queue("q")
	sound := job.New(job.Description{ID: "sound"}, 1, jobtest.Now)
	value, err := sound.Encode()
	if err != nil {
		f.Fatal(err)
	}
	under := []string{keys.Job("x"), keys.Job("sound") + "/deeper", keys.Jobs() + "\xff", keys.Worker("a.0123456789abcdef"), space.Session("junk"), keys.Config()}
	for i, v := range append(jobtest.Golden(f, "../job/testdata"), nil, []byte("null"), []byte("7"), []byte(`{"kinds":7}`), []byte(`{"concurrency":1e400}`), []byte(`{"paused":"x"}`), []byte(strings.Repeat("{", 99))) {
		f.Add(under[0], v, true)
		f.Add(under[i%len(under)], v, false)
	}
	f.Fuzz(func(t *testing.T, key string, junk []byte, reset bool) {
		if key == keys.Job("sound") {
			return
		}
		x := NewIndex(space, "q")
		x.now = func() time.Time { return jobtest.Now }
		sinks := []mirror.Sink{jobSink{x}, sessionSink{x}, workerSink{x}, configSink{x}}
		good := &mvccpb.KeyValue{Key: []byte(keys.Job("sound")), Value: value, ModRevision: 2, CreateRevision: 2}
		bad := &mvccpb.KeyValue{Key: []byte(key), Value: junk, ModRevision: 3, CreateRevision: 3}
		jobSink{x}.Reset([]*mvccpb.KeyValue{good}, 2)
		for _, s := range sinks {
			if reset {
				both := []*mvccpb.KeyValue{bad}
				if s == (jobSink{x}) {
					both = append(both, good)
				}
				s.Reset(both, 3)
			} else {
				s.Apply([]*clientv3.Event{{Type: clientv3.EventTypePut, Kv: bad}}, 3)
			}
		}
		x.promote(jobtest.Now)
		for _, s := range sinks {
			s.Apply([]*clientv3.Event{{Type: clientv3.EventTypeDelete, Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: 4}}}, 4)
		}
		if e := x.jobs["sound"]; e == nil || e.state != entryReady {
			t.Errorf("the sound job is %+v beside %q: %q", e, key, junk)
		}
		if len(x.jobs) != 1 || len(x.unread) != 0 {
			t.Errorf("left behind by %q: %d jobs, %v", key, len(x.jobs), x.unread)
		}
	})
}
