package ready

import (
	"slices"
	"time"

	"github.com/leasekit/leasekit/internal/job"
)

// Assignment is a job that is to be given to a worker.
type Assignment struct {
	Candidate Candidate
	To        job.Owner
	// registered is the mod revision of the worker's registration that was seen.
	Registered int64
}

// burden is what a worker was given and the mirror does not show yet.
type burden struct{ jobs, suspects int }

// Assignments plans one round of dispatching and marks its jobs busy. Wake is when
// to look again although nothing changed; zero means never.
func (x *Index) Assignments(prefetch int, ttl time.Duration) (round []Assignment, wake time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := x.now()
	x.promote(now)
	if x.config.Paused || x.config.Mode != job.ModeDispatch {
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
		c := x.take(e, Claimant{SID: sid, TTL: ttl}, now)
		x.assign(e, sid)
		round = append(round, Assignment{Candidate: c, To: job.Owner{ID: sid, Rev: x.sessions[sid]}, Registered: x.workers[sid].rev})
	}
	return round, Soonest(wake, again)
}

// assignable lists the first jobs in queue order that some of the workers can take:
// what none can take must not hold up what is behind it. Again is when a job that
// was passed over may be tried again.
func (x *Index) assignable(workers []planWorker, now time.Time) (entries []*entry, again time.Time) {
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
			again = Soonest(again, e.again)
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
func (x *Index) withRoom(prefetch int) []planWorker {
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
func (x *Index) assign(e *entry, sid string) {
	e.to = sid
	x.burden(e, sid, 1)
}

// unassign ends the mark of an assignment under way. Called with mu held.
func (x *Index) unassign(e *entry) {
	if e.to != "" {
		x.burden(e, e.to, -1)
		e.to = ""
	}
}

func (x *Index) burden(e *entry, sid string, n int) {
	b := x.pendingTo[sid]
	b.jobs += n
	if isSuspect(e.Record) {
		b.suspects += n
	}
	if x.pendingTo[sid] = b; b == (burden{}) {
		delete(x.pendingTo, sid)
	}
}

// dispatchBatch is how many jobs are handed out in one round, before the room of
// the workers is looked at again.
const dispatchBatch = 256
