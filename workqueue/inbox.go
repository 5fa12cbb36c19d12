package workqueue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/inside"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/mirror"
	"github.com/leasekit/leasekit/internal/queue"
)

// inbox is what a dispatcher assigned to one session, and nearly all that its worker
// watches while the queue is in mode dispatch. An entry's value is the claimed
// record, and its revision the token. Level-triggered: an entry that is there and
// not begun is begun, whenever it came. Safe for concurrent use.
type inbox struct {
	keys   keyspace.QueueKeys
	sid    string
	prefix string
	// has tells whether the session's book has a claim already; keep and forget tell it of
	// the claims that are here, and unread of an entry that this program cannot read.
	has    func(nonce string) bool
	keep   func(job.Snapshot)
	forget func(nonce string)
	unread func(kv *mvccpb.KeyValue)
	// working are the attempts under way: as long as they last, the inbox is watched.
	working sync.WaitGroup

	mu      sync.Mutex
	entries map[string]*inboxEntry // by key
	changed chan struct{}
	closed  bool  // the worker begins nothing more
	listed  int64 // when the worker's registration changed, or since when it is gone
}

// inboxEntry is one assigned job.
type inboxEntry struct {
	key string
	at  job.Snapshot
	// begun: a handler has the job, or it is being given back, or handed in.
	begun bool
	// listed: it was there when the inbox was read, so its claim may be over by now.
	listed bool
	claim  *Claim // once its handler begins
}

var _, _ mirror.Sink = (*inbox)(nil), ownEntry{}

func newInbox(q *Queue, s *coord.Session) *inbox {
	return &inbox{
		keys: q.core.Keys(), sid: s.ID(), prefix: q.core.Keys().Inbox(s.ID()), entries: map[string]*inboxEntry{}, changed: make(chan struct{}, 1),
		keep: func(at job.Snapshot) {
			// A session that is over keeps nothing: its lease ends the claim.
			_ = inside.Of(s).Keep(at.Record.Nonce, func(ctx context.Context) error {
				return q.giveBack(ctx, s, at.Record.ID, at.Record.Nonce, unbegun("the session is closed"))
			})
		},
		has:    inside.Of(s).Book().Has,
		forget: inside.Of(s).Book().Untrack,
		unread: func(kv *mvccpb.KeyValue) { q.returnAssigned(s, kv, job.Event{}) },
	}
}

// Reset makes the inbox hold exactly these entries.
func (b *inbox) Reset(kvs []*mvccpb.KeyValue, rev int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := map[string]struct{}{}
	for _, kv := range kvs {
		seen[string(kv.Key)] = struct{}{}
		b.put(kv, true)
	}
	for key := range b.entries {
		if _, ok := seen[key]; !ok {
			b.drop(key, rev)
		}
	}
	b.wake()
}

// Apply follows the inbox.
func (b *inbox) Apply(events []*clientv3.Event, _ int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, ev := range events {
		if ev.Type == clientv3.EventTypePut {
			b.put(ev.Kv, false)
		} else {
			b.drop(string(ev.Kv.Key), ev.Kv.ModRevision)
		}
	}
	if len(events) > 0 {
		b.wake()
	}
}

// ownEntry follows the worker's own registration, without which nothing is assigned
// to it.
type ownEntry struct{ *inbox }

// Reset notes when it changed, or since when it is gone.
func (r ownEntry) Reset(kvs []*mvccpb.KeyValue, rev int64) {
	if len(kvs) > 0 {
		rev = kvs[0].ModRevision
	}
	r.note(rev)
}

// Apply notes it likewise.
func (r ownEntry) Apply(events []*clientv3.Event, _ int64) {
	if n := len(events); n > 0 {
		r.note(events[n-1].Kv.ModRevision)
	}
}

func (b *inbox) note(rev int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listed = rev
	b.wake()
}

func (b *inbox) listing() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.listed
}

// put takes an entry in. Called with mu held.
func (b *inbox) put(kv *mvccpb.KeyValue, listed bool) *inboxEntry {
	key := string(kv.Key)
	if old := b.entries[key]; old != nil {
		if old.at.IsFrom(kv) {
			return old
		}
		b.drop(key, kv.ModRevision) // assigned anew: the earlier attempt is over
	}
	if b.closed {
		return nil // who leaves gives back what is there
	}
	r := b.read(kv)
	if r == nil {
		b.unread(kv)
		return nil
	}
	e := &inboxEntry{key: key, at: job.Snapshot{Record: r, Where: job.InJobs, Rev: kv.ModRevision}, listed: listed}
	b.entries[key] = e
	// An earlier worker of the session may have left it to the book: its result is on
	// its way, and no second handler may run under its token.
	if e.begun = b.has(r.Nonce); !e.begun {
		b.keep(e.at)
	}
	return e
}

// read returns the claim that an entry is, or nil: what cannot be read, lies under
// another job's name, or is another session's claim is no assignment of this session,
// and nothing is done in its name.
func (b *inbox) read(kv *mvccpb.KeyValue) *job.Record {
	r, err := job.Decode(kv.Value)
	if err != nil || /*mutant:inbox-owner*/ r.Owner != b.sid || /*mutant:inbox-key*/ b.keys.Assigned(b.sid, r.ID) != string(kv.Key) {
		return nil
	}
	return r
}

// drop takes an entry out: its job is settled, or was taken away, and then its
// handler must stop. Called with mu held.
func (b *inbox) drop(key string, rev int64) {
	e := b.entries[key]
	delete(b.entries, key)
	switch {
	case e == nil:
	case e.claim != nil:
		e.claim.takenFromInbox(rev)
	default:
		b.forget(e.at.Record.Nonce)
	}
}

func (b *inbox) wake() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// waiting returns the entries that are not begun, in the order to begin them.
func (b *inbox) waiting() []*inboxEntry {
	b.mu.Lock()
	defer b.mu.Unlock()
	var waiting []*inboxEntry
	for _, e := range b.entries {
		if !e.begun {
			waiting = append(waiting, e)
		}
	}
	slices.SortFunc(waiting, (*inboxEntry).compare)
	return waiting
}

// compare orders by when they were assigned, and within one Txn as in the queue,
// nearly: the record does not say at which revision it was created.
func (e *inboxEntry) compare(o *inboxEntry) int {
	a, b := e.at.Record, o.at.Record
	return cmp.Or(cmp.Compare(e.at.Rev, o.at.Rev), cmp.Compare(b.Priority, a.Priority),
		a.EnqueuedAt.Compare(b.EnqueuedAt), cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.ID, b.ID))
}

// begin marks an entry as begun; false means that it is gone, or was begun before.
func (b *inbox) begin(e *inboxEntry) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.entries[e.key] != e || e.begun {
		return false
	}
	e.begun = true
	return true
}

// retry lets an entry be begun again; false means that nobody will.
func (b *inbox) retry(e *inboxEntry) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	e.begun = false
	return true
}

// work notes the claim under which an entry is worked; false means that the entry
// is gone already.
func (b *inbox) work(e *inboxEntry, c *Claim) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.claim = c
	return b.entries[e.key] == e
}

// idle tells whether the inbox is empty.
func (b *inbox) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.entries) == 0
}

// closeIdle is close, unless something has come meanwhile: mode dispatch may be back, and
// who reads the inbox next would take what is in the session's book for begun.
func (b *inbox) closeIdle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = len(b.entries) == 0 //mutant:inbox-left-empty
	return b.closed
}

// close lets nothing more begin.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}

// claimAssigned makes a claim of an inbox entry, and reads what lies beside it, and
// whether it is current still, where that is not known.
// What it reads counts only while the claim is current: a later job of that id has
// another payload.
func (q *Queue) claimAssigned(ctx context.Context, s *coord.Session, at job.Snapshot, listed bool) (*Claim, error) {
	c := q.newClaim(s, at)
	if listed || at.Record.Beside > 0 || at.Record.Attempt > 1 {
		id := at.Record.ID
		resp, err := q.core.Store.Read(ctx, clientv3.OpGet(c.fence.Key),
			clientv3.OpGet(q.core.Keys().Payload(id)), clientv3.OpGet(q.core.Keys().Progress(id)))
		if err != nil {
			return nil, fmt.Errorf("read job %s: %w", id, err)
		}
		read := func(i int) *mvccpb.KeyValue {
			if kvs := resp.Responses[i].GetResponseRange().Kvs; len(kvs) == 1 {
				return kvs[0]
			}
			return nil
		}
		if !at.IsFrom(read(0)) { //mutant:inbox-beside
			return nil, queue.ErrMissed
		}
		if payload := read(1); at.Record.Beside > 0 && payload != nil {
			c.job.Payload = payload.Value
		} else {
			c.payloadLost = at.Record.Beside > 0
		}
		if note := read(2); note != nil {
			c.notes.load(note, c.job)
		}
	}
	if err := inside.Of(s).Keep(at.Record.Nonce, c.giveBack); err != nil {
		return nil, err
	}
	return c, nil
}
