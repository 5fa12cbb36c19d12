package workqueue

import (
	"container/heap"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/mirror"
)

// index is what a process knows of a queue, from mirrors of its jobs, workers,
// config and of all sessions: a hint, since the Txn decides. Safe for concurrent
// use; the mirrors write, the workers read.
type index struct {
	keys  keyspace.QueueKeys
	space keyspace.Keyspace
	now   func() time.Time

	mu        sync.Mutex
	jobs      map[string]*entry // by id
	ready     readyKinds
	scheduled schedule
	byOwner   map[string]map[*entry]struct{}
	unread    map[string]error // keys of records that cannot be read

	sessions    map[string]int64 // sid -> create revision
	sessionsRev int64
	deaths      []death // session ends of late, oldest first, for telling a cut from a pill
	workers     map[string]peer
	workersGen  int
	workersRev  int64         // of the last change among them, or of the list
	claimTime   time.Duration // what a claim by this process takes of late
	config      job.QueueConfig
	configRev   int64
	turns       int          // grows when the mode is dispatch, or may have been unseen
	set         job.Settings // what the config says of them

	listeners map[chan struct{}]struct{}
	watchers  map[string]*watcher // id -> the latest claim of this process
	empty     chan struct{}       // closed while no live job is known

	pendingTo map[string]burden // by session: assignments that the mirror does not show yet

	running  map[string]int    // ids of what is under way in this process, from its pick until its result has an answer
	handlers map[string]int    // of those, whose handlers run, hung ones too
	assigned map[string]string // of those, the nonces of the claims that came by an inbox
	suspects int               // jobs with two or more counted losses that run here
}

// change is what a mirror shows of a job that this process has claimed.
type change struct {
	gone bool
	rev  int64       // it has happened by then
	now  *job.Record // what is there, nil when it is gone or cannot be read
}

// watcher is a claim that follows its job.
type watcher struct{ tell func(change) }

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

func newIndex(space keyspace.Keyspace, queue string) *index {
	x := &index{
		keys: space.Queue(queue), space: space, now: time.Now,
		jobs: map[string]*entry{}, ready: readyKinds{}, byOwner: map[string]map[*entry]struct{}{}, unread: map[string]error{},
		sessions: map[string]int64{}, workers: map[string]peer{},
		listeners: map[chan struct{}]struct{}{}, watchers: map[string]*watcher{},
		empty: make(chan struct{}), running: map[string]int{}, handlers: map[string]int{}, pendingTo: map[string]burden{}, assigned: map[string]string{},
	}
	close(x.empty)
	return x
}

// jobSink, sessionSink, workerSink and configSink feed the index from its mirrors.
type (
	jobSink     struct{ *index }
	sessionSink struct{ *index }
	workerSink  struct{ *index }
	configSink  struct{ *index }
)

var _, _, _, _ mirror.Sink = jobSink{}, sessionSink{}, workerSink{}, configSink{}

// Reset makes the index show exactly these jobs. Jobs that did not change keep
// their marks.
func (s jobSink) Reset(kvs []*mvccpb.KeyValue, rev int64) {
	x := s.index
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
			x.drop(id, change{gone: true, rev: rev})
		}
	}
	x.wake()
}

// Apply follows the jobs.
func (s jobSink) Apply(events []*clientv3.Event, _ int64) {
	x := s.index
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, ev := range events {
		if ev.Type == clientv3.EventTypePut {
			x.put(ev.Kv)
		} else {
			delete(x.unread, string(ev.Kv.Key))
			x.dropKey(string(ev.Kv.Key), change{gone: true, rev: ev.Kv.ModRevision})
		}
	}
	if len(events) > 0 {
		x.wake()
	}
}

// put takes one job's new value. Called with mu held.
func (x *index) put(kv *mvccpb.KeyValue) (id string, ok bool) {
	r, err := job.Decode(kv.Value)
	if err == nil && x.keys.Job(r.ID) != string(kv.Key) {
		err = ErrUndecodable // it names another job: nothing may be done in its name
	}
	if err != nil {
		// It blocks nothing but itself.
		x.unread[string(kv.Key)] = err
		x.dropKey(string(kv.Key), change{rev: kv.ModRevision})
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
	x.tell(r.ID, change{rev: kv.ModRevision, now: r})
	return r.ID, true
}

// dropKey forgets the job behind a key.
func (x *index) dropKey(key string, ch change) {
	if p, ok := x.space.Parse(key); ok && p.Kind == "jobs" {
		x.drop(p.ID, ch)
	}
}

func (x *index) drop(id string, ch change) {
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

func (x *index) tell(id string, ch change) {
	if w := x.watchers[id]; w != nil {
		w.tell(ch)
	}
}

// attach puts an entry where its record says. Called with mu held.
func (x *index) attach(e *entry) {
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

func (x *index) detach(e *entry) {
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

func (x *index) makeReady(e *entry, s entryState) {
	e.state = s
	x.ready.insert(e)
}

// markOrphan makes a held job an orphan once its owner is surely gone: its session is
// not there, and the sessions mirror is not behind the claim.
func (x *index) markOrphan(e *entry) {
	if e.state != entryHeld || x.lives(e.Record.Owner, e.Record.OwnerRev) {
		return
	}
	if x.sessionsRev >= e.Rev { //mutant:orphan-seen
		x.makeReady(e, entryOrphan)
	}
}

func (x *index) lives(sid string, rev int64) bool {
	got, ok := x.sessions[sid]
	return ok && got == rev
}

// promote moves scheduled jobs whose time has come.
func (x *index) promote(now time.Time) {
	for len(x.scheduled) > 0 && x.scheduled[0].Record.Due(now) {
		x.makeReady(heap.Pop(&x.scheduled).(*entry), entryReady)
	}
}

// wake tells the listeners to look again. Called with mu held.
func (x *index) wake() {
	for ch := range x.listeners {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// listen returns a channel that gets a value after changes, and how to stop.
func (x *index) listen() (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.listeners[ch] = struct{}{}
	return ch, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.listeners, ch)
	}
}

// follow calls f, with the index locked, for what the index shows of job id now and
// for every change from here on, until stop. The caller's claim made revision rev of a
// job that the index showed, so a job that is not there now has gone since, unless the
// index was emptied.
func (x *index) follow(id string, rev int64, f func(change)) (stop func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	w := &watcher{tell: f}
	x.watchers[id] = w
	if e := x.jobs[id]; e != nil {
		f(change{rev: e.Rev, now: e.Record})
	} else {
		f(change{gone: true, rev: rev + 1})
	}
	return func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.watchers[id] == w { // else a later claim of this process follows the job
			delete(x.watchers, id)
		}
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
