package ready

import (
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/mirror"
)

// markOrphan makes a held job an orphan once its owner is surely gone: its session is
// not there, and the sessions mirror is not behind the claim.
func (x *Index) markOrphan(e *entry) {
	if e.state != entryHeld || x.lives(e.Record.Owner, e.Record.OwnerRev) {
		return
	}
	if x.sessionsRev >= e.Rev { //mutant:orphan-seen
		x.makeReady(e, entryOrphan)
	}
}

func (x *Index) lives(sid string, rev int64) bool {
	got, ok := x.sessions[sid]
	return ok && got == rev
}

// alive is who lives.
type alive struct {
	sessions    map[string]int64 // sid -> create revision
	sessionsRev int64
	deaths      []death // session ends of late, oldest first, for telling a cut from a pill
}

// FeedSessions takes what a mirror of all sessions shows.
func (x *Index) FeedSessions() mirror.Sink { return sessionSink{x} }

type sessionSink struct{ *Index }

// Reset makes the index show exactly these sessions.
func (s sessionSink) Reset(kvs []*mvccpb.KeyValue, rev int64) {
	x := s.Index
	x.mu.Lock()
	defer x.mu.Unlock()
	old := x.sessions
	x.sessions = make(map[string]int64, len(kvs))
	for _, kv := range kvs {
		x.sessions[x.sid(kv.Key)] = kv.CreateRevision
	}
	for sid, created := range old {
		if !x.lives(sid, created) {
			x.died(sid, len(old))
		}
	}
	x.sessionsRev = rev
	x.judgeAll()
	x.wake()
}

// Apply follows the sessions: the delete of one makes orphans of its claims.
func (s sessionSink) Apply(events []*clientv3.Event, rev int64) {
	x := s.Index
	x.mu.Lock()
	defer x.mu.Unlock()
	gone := false
	for _, ev := range events {
		sid := x.sid(ev.Kv.Key)
		if ev.Type == clientv3.EventTypePut {
			x.sessions[sid] = ev.Kv.CreateRevision
			if _, serves := x.workers[sid]; serves {
				x.wake() // its registration came first: now jobs can be assigned to it
			}
			continue
		}
		if _, ok := x.sessions[sid]; ok {
			x.died(sid, len(x.sessions))
			delete(x.sessions, sid)
		}
		gone = true
	}
	x.sessionsRev = max(x.sessionsRev, rev)
	if gone || len(events) == 0 {
		x.judgeAll()
		x.wake()
	}
}

func (x *Index) sid(key []byte) string {
	return strings.TrimPrefix(string(key), x.space.Sessions())
}

// judgeAll looks at all claims whose owner is not known to live.
func (x *Index) judgeAll() {
	for sid, held := range x.byOwner {
		_, known := x.sessions[sid]
		for e := range held {
			if known && x.lives(sid, e.Record.OwnerRev) {
				break // all claims of one session name the same incarnation
			}
			x.markOrphan(e)
		}
	}
}
