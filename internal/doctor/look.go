package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/roles"
	"github.com/leasekit/leasekit/workqueue"
)

// The directories under the root, as checks need them.
const (
	dirMeta      = "meta"
	dirSessions  = "sessions"
	dirQueues    = "queues"
	dirLocks     = "locks"
	dirElections = "elections"
)

// look is what is under the root at one revision.
type look struct {
	rev int64
	at  time.Time
	// partial are the directories of which something may not be read; denied are the prefixes.
	partial map[string]bool
	denied  []string

	meta     []*mvccpb.KeyValue
	sessions map[string]*session
	// leasedTo are the sessions by the lease of their key.
	leasedTo map[int64]string
	queues   map[string]*queueLook
	// locks and elections, by name.
	locks, elections map[string]*claim
	// foreign are keys that are none of ours.
	foreign []key
	// Misnamed are keys of ours with a name that nobody can use; they are in nothing else.
	misnamed []key
	// recordsLater tells that names in jobs/ and dead/ are taken up with their records, and not before.
	recordsLater bool
	// leaseless are keys that should hang on a lease, their session's where they have one, and do not; not sessions.
	leaseless []*mvccpb.KeyValue
	// future are refusals of another history.
	future []foretold
	stamps stamps
}

// key is where a key was last written.
type key struct {
	name string
	rev  int64
	p    keyspace.ParsedKey
}

func (k key) kv() *mvccpb.KeyValue { return &mvccpb.KeyValue{Key: []byte(k.name), ModRevision: k.rev} }

// session is a process, as its key tells.
type session struct {
	id               string
	created, written int64
	lease            int64
	kv               *mvccpb.KeyValue
	Identity         string    `json:"identity"`
	Host             string    `json:"host"`
	PID              int       `json:"pid"`
	TTL              int64     `json:"ttl_seconds"`
	Opened           time.Time `json:"opened_at"`
}

// lives tells whether that incarnation has its key.
func (l *look) lives(sid string, rev int64) bool {
	s := l.sessions[sid]
	return s != nil && s.created == rev
}

// lookAt reads everything at one revision.
func lookAt(ctx context.Context, e *Exam) (*look, error) {
	keys := e.store.Keys()
	resp, err := e.client.Get(ctx, keys.Meta())
	if err != nil && !isDenied(err) {
		return nil, err
	}
	l := &look{
		at: time.Now(), partial: map[string]bool{}, sessions: map[string]*session{}, leasedTo: map[int64]string{}, queues: map[string]*queueLook{},
		locks: map[string]*claim{}, elections: map[string]*claim{}, stamps: stamps{},
	}
	if err == nil {
		l.rev, l.meta = resp.Header.Revision, resp.Kvs
	} else if l.rev, err = e.revision(ctx); err != nil {
		return nil, err
	} else {
		l.deny(dirMeta, keys.Meta())
	}
	queues := workqueue.Queues{Client: e.client, Root: keys.Root()}
	r := reader{client: e.client, store: e.store, queues: queues, rev: l.rev, allowed: e.allowed}
	if err := l.readKeys(ctx, r, keys); err != nil {
		return nil, err
	}
	if err := l.readSessions(ctx, r, keys); err != nil {
		return nil, err
	}
	if err := l.readClaims(ctx, r, keys); err != nil {
		return nil, err
	}
	return l, l.readQueues(ctx, r, keys)
}

// revision asks for the head where meta may not be read: any key that may be read will do.
func (e *Exam) revision(ctx context.Context) (int64, error) {
	parts, _ := e.allowed.Readable(roles.Span{End: "\x00"})
	for _, s := range parts {
		resp, err := e.client.Get(ctx, s.From)
		if err == nil {
			return resp.Header.Revision, nil
		}
		if !isDenied(err) {
			return 0, err
		}
	}
	return 0, fmt.Errorf("nothing under %s may be read: %w", e.store.Keys().Root(), errDenied)
}

func (l *look) deny(dir, prefix string) {
	l.partial[dir] = true
	l.denied = append(l.denied, prefix)
}

// readKeys reads the names of all keys: which queues there are, what lies beside jobs, and what is none of ours. Where
// the records are, which are read anyway, is left out, unless the queues are so many that it would be no gain.
func (l *look) readKeys(ctx context.Context, r reader, keys keyspace.Keyspace) error {
	names := each(func(kvs []*mvccpb.KeyValue) error {
		for _, kv := range kvs {
			p, ok := keys.Parse(string(kv.Key))
			switch {
			case !ok:
				l.foreign = append(l.foreign, key{name: string(kv.Key), rev: kv.ModRevision})
			case misnamed(p) != nil:
				l.misnamed = append(l.misnamed, key{string(kv.Key), kv.ModRevision, p})
			case p.Queue != "":
				l.queue(keys, p.Queue).add(key{string(kv.Key), kv.ModRevision, p})
			}
		}
		return nil
	})
	root := span(keys.Root(), prefixEnd(keys.Root()))
	if _, whole := r.allowed.Readable(root); whole {
		queues, err := r.firstQueues(ctx, keys)
		if err == nil && len(queues) <= manyQueues {
			l.recordsLater = true
			return r.streamAll(ctx, l.aroundRecords(keys, queues, root), names)
		}
		if err != nil && !isDenied(err) {
			return err
		}
	}
	whole, err := r.scan(ctx, keys.Root(), true, names)
	if _, all := r.allowed.Readable(span(keys.Queues(), prefixEnd(keys.Queues()))); err == nil && !whole && (!all || r.allowed.Everything) {
		l.deny(dirQueues, keys.Queues())
	}
	return err
}

// manyQueues is how many queues are worth it to leave their records out.
const manyQueues = 64

// aroundRecords are the parts of the root without the records of queues, which are in the order of their keys.
func (l *look) aroundRecords(keys keyspace.Keyspace, queues []string, root roles.Span) (parts []roles.Span) {
	from := root.From
	for _, name := range queues {
		q := l.queue(keys, name).keys
		for _, records := range []string{q.DeadJobs(), q.Jobs()} {
			parts = append(parts, span(from, records))
			from = prefixEnd(records)
		}
	}
	return append(parts, span(from, root.End))
}

func (l *look) queue(keys keyspace.Keyspace, name string) *queueLook {
	q := l.queues[name]
	if q == nil {
		q = newQueueLook(keys.Queue(name))
		l.queues[name] = q
	}
	return q
}

// readSessions reads who is there, and the lanes, of which only the leases count.
func (l *look) readSessions(ctx context.Context, r reader, keys keyspace.Keyspace) error {
	whole, err := r.scan(ctx, keys.Sessions(), false, func(kvs []*mvccpb.KeyValue) error {
		for _, kv := range kvs {
			p, ok := keys.Parse(string(kv.Key))
			if !ok {
				continue
			}
			s := &session{}
			_ = json.Unmarshal(kv.Value, s) // its key says what matters
			s.id, s.created, s.written, s.lease, s.kv = p.Session, kv.CreateRevision, kv.ModRevision, kv.Lease, kv
			l.sessions[s.id] = s
			if s.lease != 0 {
				l.leasedTo[s.lease] = s.id
			}
			if !s.Opened.IsZero() {
				l.stamps.add(keyspace.IdentityOf(s.id), s.created, s.Opened)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !whole {
		l.deny(dirSessions, keys.Sessions())
	}
	whole, err = r.scan(ctx, keys.Lanes(), false, func(kvs []*mvccpb.KeyValue) error {
		for _, kv := range kvs {
			if p, ok := keys.Parse(string(kv.Key)); ok && kv.Lease != int64(p.Lease()) {
				l.leaseless = append(l.leaseless, kv)
			}
		}
		return nil
	})
	if err == nil && !whole {
		l.deny("lanes", keys.Lanes())
	}
	return err
}

// sessionsOf lists the sessions, in the order of their ids.
func (l *look) sessionsOf() []*session { return sorted(l.sessions) }

// queuesOf lists the queues that were read, by name.
func (l *look) queuesOf() []*queueLook { return sorted(l.queues) }

// sorted lists what has names in their order.
func sorted[T any](all map[string]T) (list []T) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[name])
	}
	return list
}
