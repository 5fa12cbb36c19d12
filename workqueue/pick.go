package workqueue

import (
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/internal/job"
)

const (
	// headWindow is how far into the queue a process looks for jobs that
	// rendezvous hashing gives it.
	headWindow = 256
	// minStagger and maxStagger bound how long each next process in a job's order of
	// preference waits, once the job is in the head window, before it takes the job in
	// place of those before it. A job's age says nothing: behind a long queue all jobs
	// are old.
	minStagger = 25 * time.Millisecond
	maxStagger = 500 * time.Millisecond
	// staggerSteps bounds the wait, however many processes there are.
	staggerSteps = 10
	// overdue is how long a job may be passed over for others' sake: the processes
	// before this one are busy, or stuck.
	overdue = 5 * time.Second
)

// stagger is three times what a claim takes, so that the claim of the process before this
// one has been made, and seen, by the time that this one would try.
func stagger(claimTime time.Duration) time.Duration {
	return min(max(3*claimTime, minStagger), maxStagger)
}

// claimTook notes how long a claim took: a moving average over about eight of them.
func (x *index) claimTook(d time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.claimTime == 0 {
		x.claimTime = d
	}
	x.claimTime += (d - x.claimTime) / 8
}

// candidate is a job that may be claimable, as the index showed it.
type candidate struct {
	job.Snapshot
	entry  *entry
	orphan bool
	cut    bool      // the owner went in a cut: the loss counts against no job
	config int64     // the config's revision that was seen
	seen   time.Time // when it was found claimable
}

// claimant is who looks for jobs.
type claimant struct {
	sid string
	ttl time.Duration
	// knows tells which kinds the handler can work; nil knows all.
	knows func(kind string) bool
}

// isSuspect tells that a job may be what ends its workers: a process runs one such
// job at a time, so that the next crash names the culprit.
func isSuspect(r *job.Record) bool { return r.Losses >= 2 }

// pick chooses up to n jobs for the claimant and marks them busy, in queue order:
// in the head window first those that rendezvous hashing gives it, then any other
// when the processes before it had their time. Wake is when to look again although nothing changed;
// zero means never. Each candidate must be given back with settleEntry, and with
// leave once nothing of it runs here.
func (x *index) pick(n int, a claimant) (picked []candidate, wake time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := x.now()
	x.promote(now)
	if len(x.scheduled) > 0 {
		wake = x.scheduled[0].Record.RunAt
	}
	if x.config.Paused || x.config.Mode == ModeDispatch {
		return nil, time.Time{}
	}
	var others []*entry
	step, looked := stagger(x.claimTime), 0
	for e := range x.ready.of(a.knows) {
		if len(picked) >= n || looked >= headWindow+8*n {
			break
		}
		r := e.Record
		if !x.free(e) || isSuspect(r) && x.suspects > 0 {
			continue
		}
		looked++
		if e.headSince.IsZero() {
			e.headSince = now
		}
		if now.Before(e.again) {
			wake = soonest(wake, e.again)
			continue
		}
		wait := time.Duration(min(x.placeOf(e, a.sid), staggerSteps)) * step
		switch waited := now.Sub(e.headSince); {
		case wait == 0, waited > overdue+10*wait:
			picked = append(picked, x.takeToWork(e, a, now))
		case waited >= wait:
			others = append(others, e)
		default:
			wake = soonest(wake, e.headSince.Add(wait))
		}
	}
	for _, e := range others {
		if len(picked) < n && !(isSuspect(e.Record) && x.suspects > 0) {
			picked = append(picked, x.takeToWork(e, a, now))
		}
	}
	return picked, wake
}

// takeToWork takes a job that will run in this process.
func (x *index) takeToWork(e *entry, a claimant, now time.Time) candidate {
	x.enter(e.Record)
	return x.take(e, a, now)
}

// first chooses one job without a preference: the spread-th of those claimable,
// counted from the head, or the last of them when there are fewer.
func (x *index) first(spread int, a claimant) (c candidate, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := x.now()
	x.promote(now)
	if x.config.Paused {
		return candidate{}, false
	}
	var found *entry
	for e := range x.ready.of(a.knows) {
		if !x.free(e) || now.Before(e.again) {
			continue
		}
		found = e
		if spread--; spread < 0 {
			break
		}
	}
	if found == nil {
		return candidate{}, false
	}
	return x.take(found, a, now), true
}

func (x *index) take(e *entry, a claimant, now time.Time) candidate {
	e.busy = true
	c := candidate{Snapshot: e.Snapshot, entry: e, orphan: e.state == entryOrphan, config: x.configRev, seen: now}
	if c.orphan {
		c.cut = x.inMassLoss(c.Record.Owner, a.ttl)
		c.Record = x.forgive(c.Record, a.ttl)
	}
	return c
}

// retryEvery is the pause before a claim that came to nothing is tried again.
const retryEvery = 100 * time.Millisecond

// settleEntry ends the mark of a pick. A job that somebody else took stays marked
// until the event that says so. Any other is left alone for a moment: what stood
// against the claim, such as a config or an end of the session that the mirrors do
// not show yet, may still stand.
func (x *index) settleEntry(c candidate, moved bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !moved {
		x.unassign(c.entry)
		c.entry.busy = false
		c.entry.again = x.now().Add(retryEvery)
		x.wake()
	}
}

// refused is settleEntry for a claim that was refused, with what was found in the job's
// place. Moved tells that it is not what the index showed. Another record of the same
// revision is of another history, of which the mirror may have no event: it is taken in
// at once.
func (x *index) refused(c candidate, found *mvccpb.KeyValue) (moved bool) {
	moved = !c.IsFrom(found)
	x.settleEntry(c, moved)
	if moved && found != nil && found.ModRevision == c.Rev {
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.jobs[c.Record.ID] == c.entry {
			x.put(found)
			x.wake()
		}
	}
	return moved
}

// free tells whether this process may claim a job: it is not at it already, and no
// handler of an earlier claim still runs here.
func (x *index) free(e *entry) bool {
	return !e.busy && /*mutant:attempt-beside*/ x.running[e.Record.ID] == 0
}

// enter notes that a job runs in this process, from its pick on. Called with mu
// held.
func (x *index) enter(r *job.Record) {
	x.running[r.ID]++
	if isSuspect(r) {
		x.suspects++
	}
}

// leave ends what pick began, once nothing of the job runs here.
func (x *index) leave(c candidate) {
	x.mu.Lock()
	defer x.mu.Unlock()
	id := c.entry.Record.ID
	if x.running[id]--; x.running[id] == 0 {
		delete(x.running, id)
		delete(x.assigned, id)
	}
	if isSuspect(c.entry.Record) {
		x.suspects--
	}
	x.wake()
}

// placeOf is the process's place in the job's order of preference.
func (x *index) placeOf(e *entry, sid string) int {
	if e.placeGen == x.workersGen+1 && e.placeFor == sid {
		return e.place
	}
	e.placeGen, e.placeFor, e.place = x.workersGen+1, sid, 0
	self, ok := x.workers[sid]
	if !ok || len(x.workers) == 1 {
		return 0
	}
	mine := mix(e.hash ^ self.hash)
	for other, w := range x.workers {
		if other != sid && w.Knows(e.Record.Kind) && mix(e.hash^w.hash) > mine {
			e.place++
		}
	}
	return e.place
}

// emptied returns a channel that is closed while no live job is known.
func (x *index) emptied() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.empty
}

func soonest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
