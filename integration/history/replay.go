package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/workqueue"
)

// place is a directory of jobs.
type place string

const (
	inJobs place = "jobs"
	inDone place = "done"
	inDead place = "dead"
)

var places = []place{inJobs, inDone, inDead}

// jobKey names a job, of whatever incarnation.
type jobKey struct{ queue, id string }

// standing is a job's record where it lies.
type standing struct {
	place place
	rev   int64 // the token, while it is claimed
	lease int64
	rec   *jobRecord // nil when it cannot be read
}

func (s *standing) claimed() bool {
	return s != nil && s.place == inJobs && s.rec != nil && s.rec.claimed()
}

// move is a transition of a job.
type move struct {
	key       jobKey
	name      string
	from, to  *standing // nil: none
	rev, seen int64
	// source and target are the other half of a move between queues.
	source, target *move
}

// born is the incarnation that moved.
func (m *move) born() string {
	for _, s := range []*standing{m.to, m.from} {
		if s != nil && s.rec != nil {
			return s.rec.Born
		}
	}
	return ""
}

// entry is what the move left in the trail.
func (m *move) entry() workqueue.Attempt {
	if m.to == nil || m.to.rec == nil {
		return workqueue.Attempt{}
	}
	return m.to.rec.entry()
}

// term is a leadership as etcd had it.
type term struct {
	token, until int64 // until is the revision that ended it, 0 while it stands
	owner        string
}

// span is a time.
type span struct{ from, to int64 }

// replay is the world as the events make it.
type replay struct {
	check *checker
	keys  keyspace.Keyspace

	jobs     map[jobKey]map[place]*standing
	sessions map[string]int64 // live: create revision
	gone     map[string]int64 // when the session was seen to be gone
	paused   map[string]bool
	pauses   map[string][]span // of queues; the last one may be open
	leaders  map[string][]*term
	kvs      map[string]Event

	moves []*move
	byJob map[jobKey][]*move
	notes map[claimID]bool // claims that wrote progress
	end   int64            // when the last event was seen
	// others are what callers may have written along, by revision; foreign tells that
	// some of it lies outside the root.
	others  map[int64][]Event
	foreign bool
}

func newReplay(c *checker, keys keyspace.Keyspace) *replay {
	return &replay{
		check: c, keys: keys,
		jobs: map[jobKey]map[place]*standing{}, sessions: map[string]int64{}, gone: map[string]int64{},
		paused: map[string]bool{}, pauses: map[string][]span{}, leaders: map[string][]*term{}, kvs: map[string]Event{},
		byJob: map[jobKey][]*move{}, notes: map[claimID]bool{}, others: map[int64][]Event{},
	}
}

// run replays all events, revision by revision.
func (r *replay) run(events []Event, final *Final) {
	compared := final == nil
	for start, end := 0, 0; start < len(events); start = end {
		rev := events[start].Rev
		for end < len(events) && events[end].Rev == rev {
			end++
		}
		if end < len(events) && events[end].Rev < rev {
			r.check.fail("I5", jobKey{}, rev, "the history is not in order: revision %d follows %d", events[end].Rev, rev)
			return
		}
		if !compared && rev > final.Revision {
			r.compare(final)
			compared = true
		}
		r.apply(events[start:end])
	}
	if !compared {
		r.compare(final)
	}
}

// apply makes the changes of one revision. Jobs are judged by the world before it, as
// compares are.
func (r *replay) apply(events []Event) {
	changes := map[jobKey][]change{}
	var order []jobKey
	for i := range events {
		ev := &events[i]
		r.end = max(r.end, ev.Seen)
		p, ok := r.keys.Parse(ev.Key)
		if !ok || p.Kind == "jobs" && !ev.Delete {
			r.others[ev.Rev] = append(r.others[ev.Rev], *ev)
			r.foreign = r.foreign || !strings.HasPrefix(ev.Key, r.keys.Root())
		}
		if !ok || !slices.Contains(places, place(p.Kind)) {
			continue
		}
		key := jobKey{p.Queue, p.ID}
		if changes[key] == nil {
			order = append(order, key)
		}
		changes[key] = append(changes[key], change{place(p.Kind), ev})
	}
	moves := make([]*move, 0, len(order))
	left := map[string]*move{} // jobs that went from a queue, by born
	for _, key := range order {
		m := r.step(key, changes[key])
		if m == nil {
			continue
		}
		moves = append(moves, m)
		if m.to == nil && m.from.rec != nil {
			left[m.born()] = m
		}
	}
	for _, m := range moves {
		if other := left[m.born()]; m.from == nil && other != nil && other.key.id == m.key.id {
			m.source, other.target = other, m
		}
	}
	for _, m := range moves {
		r.judge(m)
	}
	for i := range events {
		r.surroundings(&events[i])
	}
}

// change is an event of a job's record.
type change struct {
	place place
	ev    *Event
}

// step moves one job; nil means that it did not move.
func (r *replay) step(key jobKey, changes []change) *move {
	before := r.current(key)
	for _, c := range changes {
		r.put(key, c.place, c.ev)
	}
	rev, seen := changes[0].ev.Rev, changes[0].ev.Seen
	if n := len(r.jobs[key]); n > 1 {
		r.check.fail("I3", key, rev, "the id is in %d of jobs, done and dead", n)
	}
	after := r.current(key)
	if before == after {
		return nil
	}
	m := &move{key: key, from: before, to: after, rev: rev, seen: seen}
	r.moves = append(r.moves, m)
	r.byJob[key] = append(r.byJob[key], m)
	return m
}

// current is where a job is.
func (r *replay) current(key jobKey) *standing {
	for _, p := range places {
		if s := r.jobs[key][p]; s != nil {
			return s
		}
	}
	return nil
}

func (r *replay) put(key jobKey, p place, ev *Event) {
	if ev.Delete {
		delete(r.jobs[key], p)
		return
	}
	rec, err := decodeRecord(ev.Value)
	if err == nil && rec.ID != key.id {
		err = fmt.Errorf("it names job %q", rec.ID)
	}
	if err != nil {
		rec = nil
	}
	if r.jobs[key] == nil {
		r.jobs[key] = map[place]*standing{}
	}
	r.jobs[key][p] = &standing{place: p, rev: ev.Rev, lease: ev.Lease, rec: rec}
}

// surroundings keeps what is not a job.
func (r *replay) surroundings(ev *Event) {
	if ev.Delete {
		delete(r.kvs, ev.Key)
	} else {
		r.kvs[ev.Key] = *ev
	}
	p, ok := r.keys.Parse(ev.Key)
	if !ok {
		return
	}
	switch p.Kind {
	case "sessions":
		if ev.Delete {
			delete(r.sessions, p.Session)
			r.gone[p.Session] = ev.Seen
		} else {
			r.sessions[p.Session] = ev.CreateRev
		}
	case "config":
		r.config(p.Queue, ev)
	case "progress":
		var note struct {
			Token coord.Token `json:"token"`
		}
		if !ev.Delete && json.Unmarshal(ev.Value, &note) == nil {
			r.notes[claimID{p.Queue, p.ID, int64(note.Token)}] = true
		}
	case "elections":
		if p.Session == "" {
			r.leader(p.Name, ev)
		}
	}
}

func (r *replay) config(queue string, ev *Event) {
	var c struct {
		Paused bool `json:"paused"`
	}
	_ = json.Unmarshal(ev.Value, &c) // what cannot be read pauses nothing
	paused := c.Paused && !ev.Delete
	if paused == r.paused[queue] {
		return
	}
	r.paused[queue] = paused
	if paused {
		r.pauses[queue] = append(r.pauses[queue], span{ev.Seen, Never})
	} else {
		r.pauses[queue][len(r.pauses[queue])-1].to = ev.Seen
	}
}

func (r *replay) leader(name string, ev *Event) {
	terms := r.leaders[name]
	if n := len(terms); n > 0 && terms[n-1].until == 0 {
		terms[n-1].until = ev.Rev
	}
	var h struct {
		Owner string `json:"owner"`
	}
	if !ev.Delete && json.Unmarshal(ev.Value, &h) == nil && h.Owner != "" {
		r.leaders[name] = append(terms, &term{token: ev.Rev, owner: h.Owner})
	}
}

// lives tells whether a session is there as a claim names it.
func (r *replay) lives(sid string, rev int64) bool {
	got, ok := r.sessions[sid]
	return ok && got == rev
}

// compare holds what was replayed against what was read in the end: nothing was
// missed.
func (r *replay) compare(f *Final) {
	inFinal := func(key string) bool {
		return !strings.HasPrefix(key, r.keys.Lanes()) && slices.ContainsFunc(f.Prefixes, func(p string) bool { return strings.HasPrefix(key, p) })
	}
	for key, kv := range f.KVs {
		ev, ok := r.kvs[key]
		switch {
		case !inFinal(key):
		case !ok:
			r.check.fail("I5", r.jobOf(key), f.Revision, "key %s is there in the end, and no event put it", key)
		case ev.Rev != kv.ModRev || !bytes.Equal(ev.Value, kv.Value):
			r.check.fail("I5", r.jobOf(key), f.Revision, "key %s has revision %d in the end, its last event %d", key, kv.ModRev, ev.Rev)
		}
	}
	for key := range r.kvs {
		if _, ok := f.KVs[key]; !ok && inFinal(key) {
			r.check.fail("I3", r.jobOf(key), f.Revision, "key %s is not there in the end, and no event deleted it", key)
		}
	}
	r.leftovers(f.Revision)
}

func (r *replay) jobOf(key string) jobKey {
	p, _ := r.keys.Parse(key)
	return jobKey{p.Queue, p.ID}
}

// leftovers finds what should have gone with its job.
func (r *replay) leftovers(rev int64) {
	for key := range r.kvs {
		p, ok := r.keys.Parse(key)
		if !ok {
			continue
		}
		job := jobKey{p.Queue, p.ID}
		s := r.current(job)
		switch p.Kind {
		case "assigned":
			if !s.claimed() || s.rec.Owner != p.Session || !s.rec.Assigned {
				r.check.fail("leftovers", job, rev, "%s is there, and its session does not own the job", key)
			}
		case "payloads", "progress":
			if s == nil || s.place == inDone {
				r.check.fail("leftovers", job, rev, "%s is there, and nobody needs it", key)
			}
		}
	}
}
