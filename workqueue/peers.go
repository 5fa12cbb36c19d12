package workqueue

import (
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/job"
)

// Reset makes the index show exactly these sessions.
func (s sessionSink) Reset(kvs []*mvccpb.KeyValue, rev int64) {
	x := s.index
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
	x := s.index
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

func (x *index) sid(key []byte) string {
	return strings.TrimPrefix(string(key), x.space.Sessions())
}

// judgeAll looks at all claims whose owner is not known to live.
func (x *index) judgeAll() {
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

// deathWindow is how far back session ends are remembered: orphans can wait long
// for somebody who has a free slot.
const deathWindow = 10 * time.Minute

// death is the end of a session, as the mirror showed it.
type death struct {
	sid string
	at  time.Time
	of  int // sessions that were known before it
}

func (x *index) died(sid string, of int) {
	now := x.now()
	for len(x.deaths) > 0 && now.Sub(x.deaths[0].at) > deathWindow {
		x.deaths = x.deaths[1:]
	}
	x.deaths = append(x.deaths, death{sid, now, of})
}

// inMassLoss tells whether a session ended among many: three or more, and half of all,
// within one ttl. Then the network, etcd or a node failed, and no job is to blame.
func (x *index) inMassLoss(sid string, ttl time.Duration) bool {
	for _, d := range x.deaths {
		if d.sid == sid {
			return isCut(x.deaths, d.at, ttl)
		}
	}
	return false
}

// isCut looks for a window of one ttl around at in which sessions ended in numbers.
func isCut(deaths []death, at time.Time, ttl time.Duration) bool {
	end := 0
	for i, first := range deaths {
		if first.at.After(at) {
			return false
		}
		for end < len(deaths) && deaths[end].at.Sub(first.at) <= ttl {
			end++
		}
		if n := end - i; at.Sub(first.at) <= ttl && n >= 3 && 2*n >= first.of {
			return true
		}
	}
	return false
}

// forgive takes back losses that were counted before it showed that their owners
// went in a cut: whoever meets the first orphans of one cannot know yet.
func (x *index) forgive(r *job.Record, ttl time.Duration) *job.Record {
	left := r.Losses
	for i := len(r.Attempts) - 1; i >= 0 && left > 0; i-- {
		a := r.Attempts[i]
		if !a.Counted {
			continue
		}
		left--
		if !x.inMassLoss(a.Owner, ttl) {
			continue
		}
		c := *r
		c.Attempts = slices.Clone(r.Attempts)
		c.Attempts[i].Counted = false
		c.Losses--
		r = &c
	}
	return r
}

// peer is a worker of the queue, in this process or another.
type peer struct {
	job.WorkerRecord
	hash uint64
	rev  int64 // its key's mod revision
}

// Reset makes the index show exactly these workers.
func (s workerSink) Reset(kvs []*mvccpb.KeyValue, rev int64) {
	x := s.index
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
	x := s.index
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

// listing is when the registration of a session changed. Of one that is not there, or is
// nobody's, it is when the workers changed last: it was not there then.
func (x *index) listing(sid string) int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	if w, ok := x.workers[sid]; ok {
		return w.rev
	}
	return x.workersRev
}

func (x *index) putWorker(kv *mvccpb.KeyValue) {
	sid := strings.TrimPrefix(string(kv.Key), x.keys.Workers())
	w := job.DecodeWorker(kv.Value)
	if w.Left {
		delete(x.workers, sid)
		return
	}
	x.workers[sid] = peer{WorkerRecord: w, hash: hash64(sid), rev: kv.ModRevision}
}

// Reset takes the config, or its absence.
func (s configSink) Reset(kvs []*mvccpb.KeyValue, _ int64) {
	x := s.index
	x.mu.Lock()
	defer x.mu.Unlock()
	was := x.configRev
	x.config, x.configRev, x.set = job.QueueConfig{}, 0, job.Settings{}
	for _, kv := range kvs {
		x.setConfig(kv)
	}
	if x.configRev != was {
		x.turns++ // a list shows nothing of what was between
	}
	x.wake()
}

// Apply follows the config.
func (s configSink) Apply(events []*clientv3.Event, _ int64) {
	x := s.index
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, ev := range events {
		if ev.Type == clientv3.EventTypePut {
			x.setConfig(ev.Kv)
		} else {
			x.config, x.configRev, x.set = job.QueueConfig{}, 0, job.Settings{}
		}
	}
	x.wake()
}

func (x *index) setConfig(kv *mvccpb.KeyValue) {
	c, err := job.DecodeConfig(kv.Value)
	if err != nil {
		// Nobody knows what it wants, so nothing is claimed until it is mended.
		c = job.QueueConfig{Paused: true, Reason: "the queue's config cannot be read: " + err.Error()}
	}
	x.config, x.configRev = c, kv.ModRevision
	if c.Mode == ModeDispatch {
		x.turns++ //mutant:turn-counted
	}
	x.set, _ = c.Settings() // what is out of bounds says nothing; doctor names it
}

func (x *index) settings() job.Settings {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.set
}
