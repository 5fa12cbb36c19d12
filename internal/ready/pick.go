package ready

import (
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/internal/job"
)

const (
	// HeadWindow is how far into the queue a process looks for jobs that
	// rendezvous hashing gives it.
	HeadWindow = 256
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

// ClaimTook notes how long a claim took: a moving average over about eight of them.
func (x *Index) ClaimTook(d time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.claimTime == 0 {
		x.claimTime = d
	}
	x.claimTime += (d - x.claimTime) / 8
}

// Candidate is a job that may be claimable, as the index showed it.
type Candidate struct {
	job.Snapshot
	entry      *entry
	Orphan     bool
	InMassLoss bool      // the owner went in a cut: the loss counts against no job
	Config     int64     // the config's revision that was seen
	Seen       time.Time // when it was found claimable
}

// Claimant is who looks for jobs.
type Claimant struct {
	SID string
	TTL time.Duration
	// knows tells which kinds the handler can work; nil knows all.
	Knows func(kind string) bool
}

// isSuspect tells that a job may be what ends its workers: a process runs one such
// job at a time, so that the next crash names the culprit.
func isSuspect(r *job.Record) bool { return r.Losses >= 2 }

// Pick chooses up to n jobs for the claimant and marks them busy, in queue order:
// in the head window first those that rendezvous hashing gives it, then any other
// when the processes before it had their time. Wake is when to look again although nothing changed;
// zero means never. Each candidate must be given back with Settle, and with
// Leave once nothing of it runs here.
func (x *Index) Pick(n int, a Claimant) (picked []Candidate, wake time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := x.now()
	x.promote(now)
	if len(x.scheduled) > 0 {
		wake = x.scheduled[0].Record.RunAt
	}
	if x.config.Paused || x.config.Mode == job.ModeDispatch {
		return nil, time.Time{}
	}
	var others []*entry
	step, looked := stagger(x.claimTime), 0
	for e := range x.ready.of(a.Knows) {
		if len(picked) >= n || looked >= HeadWindow+8*n {
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
			wake = Soonest(wake, e.again)
			continue
		}
		wait := time.Duration(min(x.placeOf(e, a.SID), staggerSteps)) * step
		switch waited := now.Sub(e.headSince); {
		case wait == 0, waited > overdue+10*wait:
			picked = append(picked, x.takeToWork(e, a, now))
		case waited >= wait:
			others = append(others, e)
		default:
			wake = Soonest(wake, e.headSince.Add(wait))
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
func (x *Index) takeToWork(e *entry, a Claimant, now time.Time) Candidate {
	x.enter(e.Record)
	return x.take(e, a, now)
}

// First chooses one job without a preference: the spread-th of those claimable,
// counted from the head, or the last of them when there are fewer.
func (x *Index) First(spread int, a Claimant) (c Candidate, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := x.now()
	x.promote(now)
	if x.config.Paused {
		return Candidate{}, false
	}
	var found *entry
	for e := range x.ready.of(a.Knows) {
		if !x.free(e) || now.Before(e.again) {
			continue
		}
		found = e
		if spread--; spread < 0 {
			break
		}
	}
	if found == nil {
		return Candidate{}, false
	}
	return x.take(found, a, now), true
}

func (x *Index) take(e *entry, a Claimant, now time.Time) Candidate {
	e.busy = true
	c := Candidate{Snapshot: e.Snapshot, entry: e, Orphan: e.state == entryOrphan, Config: x.configRev, Seen: now}
	if c.Orphan {
		c.InMassLoss = x.inMassLoss(c.Record.Owner, a.TTL)
		c.Record = x.forgive(c.Record, a.TTL)
	}
	return c
}

// RetryEvery is the pause before a claim that came to nothing is tried again.
const RetryEvery = 100 * time.Millisecond

// Settle ends the mark of a pick. A job that somebody else took stays marked
// until the event that says so. Any other is left alone for a moment: what stood
// against the claim, such as a config or an end of the session that the mirrors do
// not show yet, may still stand.
func (x *Index) Settle(c Candidate, moved bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !moved {
		x.unassign(c.entry)
		c.entry.busy = false
		c.entry.again = x.now().Add(RetryEvery)
		x.wake()
	}
}

// Refused is Settle for a claim that was refused, with what was found in the job's
// place. Moved tells that it is not what the index showed. Another record of the same
// revision is of another history, of which the mirror may have no event: it is taken in
// at once.
func (x *Index) Refused(c Candidate, found *mvccpb.KeyValue) (moved bool) {
	moved = !c.IsFrom(found)
	x.Settle(c, moved)
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

// placeOf is the process's place in the job's order of preference.
func (x *Index) placeOf(e *entry, sid string) int {
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

// Soonest is the earlier of two times; zero is none.
func Soonest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// AssignedTo is the candidate that an inbox entry is: its claim is made already.
func AssignedTo(at job.Snapshot) Candidate {
	return Candidate{Snapshot: at, entry: &entry{Snapshot: at}}
}
