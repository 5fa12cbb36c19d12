package ready

import "github.com/leasekit/leasekit/internal/job"

// underWay is what this process works on.
type underWay struct {
	running  map[string]int    // ids of what is under way in this process, from its pick until its result has an answer
	handlers map[string]int    // of those, whose handlers run, hung ones too
	assigned map[string]string // of those, the nonces of the claims that came by an inbox
	suspects int               // jobs with two or more counted losses that run here
}

// Begin notes that an assigned job runs in this process from now on. Hung tells that
// it cannot: a handler of an earlier attempt still runs here. Neither, when another
// worker of this process works the same assignment, or when the answer to a claim that
// was refused, or to an earlier result, has not come yet: leave tells of it.
func (x *Index) Begin(r *job.Record) (began, hung bool) {
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

// Handles notes that one more handler of a job runs in this process, or, with -1, that one
// has returned.
func (x *Index) Handles(id string, more int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.handlers[id] += more; x.handlers[id] == 0 {
		delete(x.handlers, id)
	}
}

// WorksOn tells whether an assignment is worked in this process.
func (x *Index) WorksOn(r *job.Record) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.assigned[r.ID] == r.Nonce
}

// free tells whether this process may claim a job: it is not at it already, and no
// handler of an earlier claim still runs here.
func (x *Index) free(e *entry) bool {
	return !e.busy && /*mutant:attempt-beside*/ x.running[e.Record.ID] == 0
}

// enter notes that a job runs in this process, from its pick on. Called with mu
// held.
func (x *Index) enter(r *job.Record) {
	x.running[r.ID]++
	if isSuspect(r) {
		x.suspects++
	}
}

// Leave ends what pick began, once nothing of the job runs here.
func (x *Index) Leave(c Candidate) {
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
