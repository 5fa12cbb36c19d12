package workqueue

import (
	"slices"
	"time"

	"github.com/leasekit/leasekit/internal/job"
)

// assignment is a job that is to be given to a worker.
type assignment struct {
	c  candidate
	to job.Owner
	// registered is the mod revision of the worker's registration that was seen.
	registered int64
}

// burden is what a worker was given and the mirror does not show yet.
type burden struct{ jobs, suspects int }

// assignments plans one round of dispatching and marks its jobs busy. Wake is when
// to look again although nothing changed; zero means never.
func (x *index) assignments(prefetch int, ttl time.Duration) (round []assignment, wake time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := x.now()
	x.promote(now)
	if x.config.Paused || x.config.Mode != ModeDispatch {
		return nil, time.Time{}
	}
	if len(x.scheduled) > 0 {
		wake = x.scheduled[0].Record.RunAt
	}
	workers := x.withRoom(prefetch)
	entries, again := x.assignable(workers, now)
	jobs := make([]planJob, len(entries))
	for i, e := range entries {
		jobs[i] = planJob{kind: e.Record.Kind, hash: e.hash, suspect: isSuspect(e.Record), avoid: returnedBy(e.Record)}
	}
	for i, k := range plan(jobs, workers) {
		if k < 0 {
			continue
		}
		e, sid := entries[i], workers[k].sid
		c := x.take(e, claimant{sid: sid, ttl: ttl}, now)
		x.assign(e, sid)
		round = append(round, assignment{c: c, to: job.Owner{ID: sid, Rev: x.sessions[sid]}, registered: x.workers[sid].rev})
	}
	return round, soonest(wake, again)
}

// assignable lists the first jobs in queue order that some of the workers can take:
// what none can take must not hold up what is behind it. Again is when a job that
// was passed over may be tried again.
func (x *index) assignable(workers []planWorker, now time.Time) (entries []*entry, again time.Time) {
	unsuspicious := 0
	for _, w := range workers {
		if !w.suspect {
			unsuspicious++
		}
	}
	for e := range x.ready.of(func(kind string) bool { return knownToAny(workers, kind) }) {
		if len(entries) >= dispatchBatch {
			break
		}
		if e.busy {
			continue
		}
		if now.Before(e.again) {
			again = soonest(again, e.again)
			continue
		}
		if isSuspect(e.Record) {
			if unsuspicious == 0 {
				continue
			}
			unsuspicious--
		}
		entries = append(entries, e)
	}
	return entries, again
}

// knownToAny tells whether a worker knows the kind.
func knownToAny(workers []planWorker, kind string) bool {
	return slices.ContainsFunc(workers, func(w planWorker) bool { return w.knows(kind) })
}

// returnedBy is the session that gave the job back, or "".
func returnedBy(r *job.Record) string {
	if n := len(r.Attempts); n > 0 && r.Attempts[n-1].Outcome == job.OutcomeReleased {
		return r.Attempts[n-1].Owner
	}
	return ""
}

// withRoom lists the live workers that may hold more jobs.
func (x *index) withRoom(prefetch int) []planWorker {
	var workers []planWorker
	for sid, w := range x.workers {
		if _, ok := x.sessions[sid]; !ok || w.Concurrency <= 0 {
			continue
		}
		held, pending := x.byOwner[sid], x.pendingTo[sid]
		free := w.Concurrency + prefetch - len(held) - pending.jobs
		if free <= 0 {
			continue
		}
		pw := planWorker{sid: sid, kinds: w.Kinds, free: free, hash: w.hash, suspect: pending.suspects > 0}
		for e := range held {
			pw.suspect = pw.suspect || isSuspect(e.Record)
		}
		workers = append(workers, pw)
	}
	return workers
}

// assign marks a job as on its way to a session. Called with mu held.
func (x *index) assign(e *entry, sid string) {
	e.to = sid
	x.burden(e, sid, 1)
}

// unassign ends the mark of an assignment under way. Called with mu held.
func (x *index) unassign(e *entry) {
	if e.to != "" {
		x.burden(e, e.to, -1)
		e.to = ""
	}
}

func (x *index) burden(e *entry, sid string, n int) {
	b := x.pendingTo[sid]
	b.jobs += n
	if isSuspect(e.Record) {
		b.suspects += n
	}
	if x.pendingTo[sid] = b; b == (burden{}) {
		delete(x.pendingTo, sid)
	}
}

// mode is the queue's, as the config mirror shows it.
func (x *index) mode() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.config.Mode == ModeDispatch {
		return ModeDispatch
	}
	return ModeClaim
}

// turn changes when something may have been assigned since it was asked for: by a mode
// dispatch too that is over already.
func (x *index) turn() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.turns
}

// begin notes that an assigned job runs in this process from now on. Hung tells that
// it cannot: a handler of an earlier attempt still runs here. Neither, when another
// worker of this process works the same assignment, or when the answer to a claim that
// was refused, or to an earlier result, has not come yet: leave tells of it.
func (x *index) begin(r *job.Record) (began, hung bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.running[r.ID] > 0 {
		hung = /*mutant:hung-runs*/ x.handlers[r.ID] > 0 && x.assigned[r.ID] != r.Nonce
		return false, hung
	}
	x.enter(r)
	x.assigned[r.ID] = r.Nonce
	return true, false
}

// handles notes that one more handler of a job runs in this process, or, with -1, that one
// has returned.
func (x *index) handles(id string, more int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.handlers[id] += more; x.handlers[id] == 0 {
		delete(x.handlers, id)
	}
}

// worksOn tells whether an assignment is worked in this process.
func (x *index) worksOn(r *job.Record) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.assigned[r.ID] == r.Nonce
}

// forget empties the index of what the mirror of the jobs showed: it stopped, and
// what it showed is old.
func (x *index) forget() {
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
