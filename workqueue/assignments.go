package workqueue

import "time"

// assignment is a job that is to be given to a worker.
type assignment struct {
	c  candidate
	to session
}

// planWindow is how far into the queue a dispatcher looks for jobs that some worker
// can take.
const planWindow = 4096

// assignments plans one round of dispatching and marks its jobs busy. Wake is when
// to look again although nothing changed; zero means never.
func (x *index) assignments(prefetch int, ttl time.Duration) (round []assignment, wake time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := x.now()
	x.promote(now)
	if len(x.scheduled) > 0 {
		wake = x.scheduled[0].record.RunAt
	}
	if x.config.Paused || x.config.Mode != modeDispatch {
		return nil, time.Time{}
	}
	workers := x.withRoom(prefetch)
	if len(workers) == 0 {
		return nil, wake
	}
	var entries []*entry
	var jobs []planJob
	looked := 0
	for e := range x.ready.all() {
		if looked++; looked > planWindow || len(jobs) >= dispatchBatch {
			break
		}
		if e.busy {
			continue
		}
		if now.Before(e.again) {
			wake = soonest(wake, e.again)
			continue
		}
		entries = append(entries, e)
		jobs = append(jobs, planJob{kind: e.record.Kind, hash: e.hash, suspect: isSuspect(e.record)})
	}
	for i, k := range plan(jobs, workers) {
		if k < 0 {
			continue
		}
		e, sid := entries[i], workers[k].sid
		c := x.take(e, asker{sid: sid, ttl: ttl}, now)
		e.to = sid
		x.pendingTo[sid]++
		round = append(round, assignment{c: c, to: session{id: sid, rev: x.sessions[sid]}})
	}
	return round, wake
}

// withRoom lists the live workers that may hold more jobs.
func (x *index) withRoom(prefetch int) []planWorker {
	var workers []planWorker
	for sid, w := range x.workers {
		if _, ok := x.sessions[sid]; !ok {
			continue
		}
		held := x.byOwner[sid]
		free := w.Concurrency + prefetch - len(held) - x.pendingTo[sid]
		if free <= 0 {
			continue
		}
		pw := planWorker{sid: sid, kinds: w.Kinds, free: free, hash: w.hash}
		for e := range held {
			pw.suspect = pw.suspect || isSuspect(e.record)
		}
		workers = append(workers, pw)
	}
	return workers
}

// unassign ends the mark of an assignment under way. Called with mu held.
func (x *index) unassign(e *entry) {
	if e.to == "" {
		return
	}
	if x.pendingTo[e.to]--; x.pendingTo[e.to] == 0 {
		delete(x.pendingTo, e.to)
	}
	e.to = ""
}

// mode is the queue's, as the config mirror shows it.
func (x *index) mode() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.config.Mode == modeDispatch {
		return modeDispatch
	}
	return modeClaim
}

// runsHere tells whether a handler of the job runs in this process, an abandoned
// one too.
func (x *index) runsHere(id string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.running[id] > 0
}

// begin notes that an assigned job runs in this process.
func (x *index) begin(r *record) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.enter(r)
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
	x.sessions, x.sessionsRev = map[string]int64{}, 0
	x.workers = map[string]workerRecord{}
	x.workersGen++
}
