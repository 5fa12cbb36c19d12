package ready

import (
	"container/heap"
	"maps"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/mirror"
)

// Index is what a process knows of a queue, from mirrors of its jobs, workers,
// config and of all sessions: a hint, since the Txn decides. Safe for concurrent
// use; the mirrors write, the workers read. One lock guards all its parts, because
// what may be claimed next depends on each of them.
type Index struct {
	keys  keyspace.QueueKeys
	space keyspace.Keyspace
	now   func() time.Time

	mu sync.Mutex
	live
	alive
	serving
	wants
	underWay
	listening
}

// live is the jobs that are not over.
type live struct {
	jobs      map[string]*entry // by id
	ready     readyKinds
	scheduled schedule
	byOwner   map[string]map[*entry]struct{}
	unread    map[string]error // keys of records that cannot be read
	empty     chan struct{}    // closed while no live job is known
}

// entry is one live job.
type entry struct {
	job.Snapshot
	rank job.Rank
	hash uint64

	state     entryState
	owner     string
	heapIndex int
	// busy: a claim by this process is under way, or was lost to somebody else and
	// the event that says so has not come yet.
	busy bool
	// to is the session to which this process's dispatcher gives the job meanwhile.
	to string
	// again is when a claim that came to nothing, without anybody else's doing, may
	// be tried again.
	again time.Time
	// headSince is when this process first found the job in the head window.
	headSince time.Time
	// place is the place of session placeFor in the job's order of preference,
	// valid for placeGen.
	place    int
	placeFor string
	placeGen int
}

type entryState int

const (
	entryScheduled entryState = iota
	entryReady
	entryHeld
	entryOrphan
)

// NewIndex returns an empty index of a queue.
func NewIndex(space keyspace.Keyspace, queue string) *Index {
	x := &Index{
		keys: space.Queue(queue), space: space, now: time.Now,
		live: live{
			jobs: map[string]*entry{}, ready: readyKinds{}, byOwner: map[string]map[*entry]struct{}{},
			unread: map[string]error{}, empty: make(chan struct{}),
		},
		alive:     alive{sessions: map[string]int64{}},
		serving:   serving{workers: map[string]peer{}, pendingTo: map[string]burden{}},
		underWay:  underWay{running: map[string]int{}, handlers: map[string]int{}, assigned: map[string]string{}},
		listening: listening{listeners: map[chan struct{}]struct{}{}, watchers: map[string]*watcher{}},
	}
	close(x.empty)
	return x
}

// FeedJobs takes what a mirror of the queue's jobs shows.
func (x *Index) FeedJobs() mirror.Sink { return jobSink{x} }

// Unreadable are the keys of live records that cannot be read, and why.
func (x *Index) Unreadable() map[string]error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return maps.Clone(x.unread)
}

// Shown is the live job of that id, as the index shows it.
func (x *Index) Shown(id string) (l job.Snapshot, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.jobs[id]
	if e == nil {
		return job.Snapshot{}, false
	}
	return e.Snapshot, true
}

type jobSink struct{ *Index }

// Reset makes the index show exactly these jobs. Jobs that did not change keep
// their marks.
func (s jobSink) Reset(kvs []*mvccpb.KeyValue, rev int64) {
	x := s.Index
	x.mu.Lock()
	defer x.mu.Unlock()
	x.unread = map[string]error{}
	seen := make(map[string]struct{}, len(kvs))
	for _, kv := range kvs {
		if id, ok := x.put(kv); ok {
			seen[id] = struct{}{}
		}
	}
	for id := range x.jobs {
		if _, ok := seen[id]; !ok {
			x.drop(id, Change{Gone: true, Rev: rev})
		}
	}
	x.wake()
}

// Apply follows the jobs.
func (s jobSink) Apply(events []*clientv3.Event, _ int64) {
	x := s.Index
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, ev := range events {
		if ev.Type == clientv3.EventTypePut {
			x.put(ev.Kv)
		} else {
			delete(x.unread, string(ev.Kv.Key))
			x.dropKey(string(ev.Kv.Key), Change{Gone: true, Rev: ev.Kv.ModRevision})
		}
	}
	if len(events) > 0 {
		x.wake()
	}
}

// put takes one job's new value. Called with mu held.
func (x *Index) put(kv *mvccpb.KeyValue) (id string, ok bool) {
	r, err := job.Decode(kv.Value)
	if err == nil && x.keys.Job(r.ID) != string(kv.Key) {
		err = job.ErrUndecodable // it names another job: nothing may be done in its name
	}
	if err != nil {
		// It blocks nothing but itself.
		x.unread[string(kv.Key)] = err
		x.dropKey(string(kv.Key), Change{Rev: kv.ModRevision})
		return "", false
	}
	delete(x.unread, string(kv.Key))
	if old := x.jobs[r.ID]; old != nil {
		if old.IsFrom(kv) {
			return r.ID, true
		}
		x.detach(old)
	} else if len(x.jobs) == 0 {
		x.empty = make(chan struct{})
	}
	e := &entry{
		Snapshot: job.Snapshot{Record: r, Where: job.InJobs, Rev: kv.ModRevision},
		rank:     job.Rank{Priority: r.Priority, CreateRev: kv.CreateRevision, Seq: r.Seq, ID: r.ID},
		hash:     hash64(r.ID),
	}
	x.jobs[r.ID] = e
	x.attach(e)
	x.tell(r.ID, Change{Rev: kv.ModRevision, Now: r})
	return r.ID, true
}

// dropKey forgets the job behind a key.
func (x *Index) dropKey(key string, ch Change) {
	if p, ok := x.space.Parse(key); ok && p.Kind == "jobs" {
		x.drop(p.ID, ch)
	}
}

func (x *Index) drop(id string, ch Change) {
	e := x.jobs[id]
	if e == nil {
		return
	}
	x.detach(e)
	delete(x.jobs, id)
	if len(x.jobs) == 0 {
		close(x.empty)
	}
	x.tell(id, ch)
}

// attach puts an entry where its record says. Called with mu held.
func (x *Index) attach(e *entry) {
	r := e.Record
	switch {
	case r.Claimed():
		e.state, e.owner = entryHeld, r.Owner
		if x.byOwner[r.Owner] == nil {
			x.byOwner[r.Owner] = map[*entry]struct{}{}
		}
		x.byOwner[r.Owner][e] = struct{}{}
		x.markOrphan(e)
	case r.Due(x.now()):
		x.makeReady(e, entryReady)
	default:
		e.state = entryScheduled
		heap.Push(&x.scheduled, e)
	}
}

func (x *Index) detach(e *entry) {
	x.unassign(e)
	switch e.state {
	case entryScheduled:
		heap.Remove(&x.scheduled, e.heapIndex)
	case entryReady, entryOrphan:
		x.ready.remove(e)
	}
	if e.owner != "" {
		delete(x.byOwner[e.owner], e)
		if len(x.byOwner[e.owner]) == 0 {
			delete(x.byOwner, e.owner)
		}
	}
}

func (x *Index) makeReady(e *entry, s entryState) {
	e.state = s
	x.ready.insert(e)
}

// promote moves scheduled jobs whose time has come.
func (x *Index) promote(now time.Time) {
	for len(x.scheduled) > 0 && x.scheduled[0].Record.Due(now) {
		x.makeReady(heap.Pop(&x.scheduled).(*entry), entryReady)
	}
}

// schedule is a heap of the jobs that wait for their time.
type schedule []*entry

func (s schedule) Len() int           { return len(s) }
func (s schedule) Less(i, j int) bool { return s[i].Record.RunAt.Before(s[j].Record.RunAt) }
func (s schedule) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].heapIndex, s[j].heapIndex = i, j
}
func (s *schedule) Push(v any) {
	e := v.(*entry)
	e.heapIndex = len(*s)
	*s = append(*s, e)
}
func (s *schedule) Pop() any {
	old := *s
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*s = old[:len(old)-1]
	return e
}

// Forget empties the index of what the mirror of the jobs showed: it stopped, and
// what it showed is old.
func (x *Index) Forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.jobs) > 0 {
		close(x.empty)
	}
	for id := range x.jobs {
		x.detach(x.jobs[id])
		delete(x.jobs, id)
	}
	x.unread = map[string]error{}
	x.sessions, x.sessionsRev = map[string]int64{}, 0
	x.workers, x.workersRev = map[string]peer{}, 0
	x.workersGen++
}
