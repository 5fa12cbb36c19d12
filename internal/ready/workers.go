package ready

import (
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/mirror"
)

// serving is who works the queue.
type serving struct {
	workers    map[string]peer
	workersGen int
	workersRev int64             // of the last change among them, or of the list
	claimTime  time.Duration     // what a claim by this process takes of late
	pendingTo  map[string]burden // by session: assignments that the mirror does not show yet
}

// peer is a worker of the queue, in this process or another.
type peer struct {
	job.WorkerRecord
	hash uint64
	rev  int64 // its key's mod revision
}

// FeedWorkers takes what a mirror of the queue's workers shows.
func (x *Index) FeedWorkers() mirror.Sink { return workerSink{x} }

// Peers is how many workers the index shows.
func (x *Index) Peers() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.workers)
}

type workerSink struct{ *Index }

// Reset makes the index show exactly these workers.
func (s workerSink) Reset(kvs []*mvccpb.KeyValue, rev int64) {
	x := s.Index
	x.mu.Lock()
	defer x.mu.Unlock()
	x.workers = make(map[string]peer, len(kvs))
	for _, kv := range kvs {
		x.putWorker(kv)
	}
	x.workersRev = rev
	x.workersGen++
	x.wake()
}

// Apply follows the workers.
func (s workerSink) Apply(events []*clientv3.Event, _ int64) {
	x := s.Index
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, ev := range events {
		if ev.Type == clientv3.EventTypePut {
			x.putWorker(ev.Kv)
		} else {
			delete(x.workers, strings.TrimPrefix(string(ev.Kv.Key), x.keys.Workers()))
		}
	}
	if n := len(events); n > 0 {
		x.workersRev = events[n-1].Kv.ModRevision
		x.workersGen++
		x.wake()
	}
}

// Listing is when the registration of a session changed. Of one that is not there, or is
// nobody's, it is when the workers changed last: it was not there then.
func (x *Index) Listing(sid string) int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	if w, ok := x.workers[sid]; ok {
		return w.rev
	}
	return x.workersRev
}

func (x *Index) putWorker(kv *mvccpb.KeyValue) {
	sid := strings.TrimPrefix(string(kv.Key), x.keys.Workers())
	w := job.DecodeWorker(kv.Value)
	if w.Left {
		delete(x.workers, sid)
		return
	}
	x.workers[sid] = peer{WorkerRecord: w, hash: hash64(sid), rev: kv.ModRevision}
}
