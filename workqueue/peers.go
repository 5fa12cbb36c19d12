package workqueue

import (
	"encoding/json"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
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
			x.died()
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
			continue
		}
		if _, ok := x.sessions[sid]; ok {
			delete(x.sessions, sid)
			x.died()
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
			if known && x.lives(sid, e.record.OwnerRev) {
				break // all claims of one session name the same incarnation
			}
			x.judge(e)
		}
	}
}

// deathWindow is how far back session ends are remembered.
const deathWindow = time.Minute

func (x *index) died() {
	now := x.now()
	for len(x.deaths) > 0 && now.Sub(x.deaths[0]) > deathWindow {
		x.deaths = x.deaths[1:]
	}
	x.deaths = append(x.deaths, now)
}

// isCut tells whether sessions end in numbers, three or more and half of all within
// one ttl: then the network or etcd failed, and no job is to blame.
func isCut(deaths []time.Time, alive int, ttl time.Duration, now time.Time) bool {
	n := 0
	for _, d := range deaths {
		if now.Sub(d) <= ttl {
			n++
		}
	}
	return n >= 3 && 2*n >= n+alive
}

// Reset makes the index show exactly these workers.
func (s workerSink) Reset(kvs []*mvccpb.KeyValue, _ int64) {
	x := s.index
	x.mu.Lock()
	defer x.mu.Unlock()
	x.workers = make(map[string]workerRecord, len(kvs))
	for _, kv := range kvs {
		x.putWorker(kv)
	}
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
	if len(events) > 0 {
		x.workersGen++
		x.wake()
	}
}

func (x *index) putWorker(kv *mvccpb.KeyValue) {
	var w workerRecord
	if json.Unmarshal(kv.Value, &w) != nil {
		return // it names no kinds that we could read, so it is no peer
	}
	sid := strings.TrimPrefix(string(kv.Key), x.keys.Workers())
	w.hash = hash64(sid)
	x.workers[sid] = w
}

// Reset takes the config, or its absence.
func (s configSink) Reset(kvs []*mvccpb.KeyValue, _ int64) {
	x := s.index
	x.mu.Lock()
	defer x.mu.Unlock()
	x.config, x.configRev = config{}, 0
	for _, kv := range kvs {
		x.setConfig(kv)
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
			x.config, x.configRev = config{}, 0
		}
	}
	x.wake()
}

func (x *index) setConfig(kv *mvccpb.KeyValue) {
	c, err := decodeConfig(kv.Value)
	if err != nil {
		// Nobody knows what it wants, so nothing is claimed until it is mended.
		c = config{Paused: true, Reason: "the queue's config cannot be read: " + err.Error()}
	}
	x.config, x.configRev = c, kv.ModRevision
}
